// A file that a timeline is written to, block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::timeline {

class OutputFile {
 public:
  /// Empties or makes the file. It must be one that can be written anywhere: no pipe, no terminal. An error names the
  /// path and what to do.
  static Result<OutputFile> open(std::string path);
  /// The error that open() would return now; leaves all as it is.
  static Status check(const std::string& path);

  struct Written {
    std::size_t bytes = 0;  // that got there, also when there is an error
    int error = 0;          // an errno; 0: none
  };
  Status write_at(std::uint64_t offset, std::string_view bytes, Written& written) const;
  /// Its first `bytes`, piece by piece; false where they cannot be read.
  bool read_back(std::uint64_t bytes, const std::function<void(std::string_view)>& take) const;
  bool cut_at(std::uint64_t size) const;
  Status close();

 private:
  OutputFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;
};

}  // namespace dabke::timeline
