// A file that a timeline writes block by block.
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
  /// Empties the file or creates it. The file must be writable at any offset, so a pipe or a terminal is an
  /// error. An error names the path and what to do.
  static Result<OutputFile> open(std::string path);
  /// Returns the error that open() would return now. Changes nothing.
  static Status check(const std::string& path);

  struct Written {
    std::size_t bytes = 0;  // bytes that were written, even if there is an error
    int error = 0;          // errno; 0 if there is none
  };
  Status write_at(std::uint64_t offset, std::string_view bytes, Written& written) const;
  /// Reads the first `bytes` of the file, piece by piece. Returns false if they cannot be read.
  bool read_back(std::uint64_t bytes, const std::function<void(std::string_view)>& take) const;
  bool cut_at(std::uint64_t size) const;
  Status close();

 private:
  OutputFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;
};

}  // namespace dabke::timeline
