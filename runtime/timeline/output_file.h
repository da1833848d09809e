// A file that a timeline is written to, block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/owned.h"
#include "runtime/base/status.h"

namespace dabke {

class OutputFile {
 public:
  /// Empties or makes the file. It must be one that can be written anywhere: no pipe, no terminal. An error names the
  /// path and what to do.
  static Result<OutputFile> open(std::string path);

  /// `written` counts the bytes that got there, also when there is an error.
  Status write_at(std::uint64_t offset, std::string_view bytes, std::size_t& written) const;
  bool cut_at(std::uint64_t size) const;
  Status close();

 private:
  OutputFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;
};

}  // namespace dabke
