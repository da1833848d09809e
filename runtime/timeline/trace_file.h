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

namespace dabke::timeline {

class TraceFile {
 public:
  /// As OutputFile::open. `limit`: the most bytes that the file has, where keep() is called; 0: no limit.
  static Result<TraceFile> open(std::string path, std::uint64_t limit = 0);

  /// Begins the next event of the array; the caller appends one JSON object to what it gets.
  fmt::memory_buffer& next_event();
  /// Keeps the events since the last call. Where the file could then not end all that is open (`open` events) within its
  /// limit, they are thrown away instead, everything ends, and the file is full: false. There is room for one event yet,
  /// of kLongestLastEvent bytes.
  bool keep(std::uint64_t open);
  static constexpr std::size_t kLongestLastEvent = 128;
  bool is_full() const { return is_full_; }
  /// Flushes when much has gathered, of a file with a limit what is kept alone. Call between events.
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
  TraceFile(OutputFile file, std::uint64_t limit) : file_(std::move(file)), limit_(limit) {}
  /// Cuts the file, after an error, behind an event that is whole, and ends the array and all that is open there.
  void keep_whole_events(std::size_t written);
  /// The ends of all that is open in the first `bytes` of the file.
  std::string ends_of(std::uint64_t bytes) const;
  /// Calls `take` for each whole event among the first `bytes` of the file, with where it ends.
  bool read_events(std::uint64_t bytes,
                   const std::function<void(std::string_view event, std::uint64_t end)>& take) const;

  OutputFile file_;
  std::uint64_t limit_;
  fmt::memory_buffer events_;
  std::size_t kept_ = 0;  // bytes of `events_`
  bool is_full_ = false;
  bool any_event_ = false;
  std::uint64_t end_ = 0;  // the place of the next event: over the closing bracket
  Status error_;
};

}  // namespace dabke::timeline
