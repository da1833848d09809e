// The file of a trace: a JSON array that ends with its bracket after every flush, so that it can be read at
// any time, also when the process is killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "runtime/base/status.h"
#include "runtime/timeline/output_file.h"

namespace dabke {

class TraceFile {
 public:
  /// As OutputFile::open.
  static Result<TraceFile> open(std::string path);

  /// Begins the next event of the array; the caller appends one JSON object to what it gets.
  fmt::memory_buffer& next_event();
  /// Flushes when much has gathered. Call between events.
  void flush_if_large();
  /// Writes all events that have gathered. After the first error it only throws them away: see close().
  void flush();
  /// How large the file is.
  std::uint64_t bytes() const { return end_; }
  /// The first error since open().
  const Status& error() const { return error_; }
  /// Flushes and closes; the first error since open(), with the path and its cause. After an error the file
  /// holds whole events up to where there was room, or none, and all that they begin ends.
  Status close();

 private:
  explicit TraceFile(OutputFile file) : file_(std::move(file)) {}
  /// Cuts the file, after an error, behind an event that is whole, and ends the array and all that is open there.
  void keep_whole_events(std::size_t written);
  /// Calls `take` for each whole event among the first `bytes` of the file, with where it ends.
  bool read_events(std::uint64_t bytes,
                   const std::function<void(std::string_view event, std::uint64_t end)>& take) const;

  OutputFile file_;
  fmt::memory_buffer events_;
  bool any_event_ = false;
  std::uint64_t end_ = 0;  // the place of the next event: over the closing bracket
  Status error_;
};

}  // namespace dabke
