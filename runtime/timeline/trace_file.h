// The file of a trace: a JSON array. Every flush ends it with its bracket, so it can be read at any time,
// even after the process was killed.
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
  /// Opens the file as OutputFile::open() does. `limit` is the largest size of the file in bytes, 0 for no
  /// limit; it holds if keep() is called.
  static Result<TraceFile> open(std::string path, std::uint64_t limit = 0);

  /// Begins the next event of the array. The caller appends one JSON object to the returned buffer.
  fmt::memory_buffer& next_event();
  /// Keeps the events since the last call. `open` is the number of events that have begun and not ended. If
  /// the limit leaves no room for their ends, keep() discards the new events, ends all open ones and returns
  /// false. The file is then full, but has room for one last event of kLongestLastEvent bytes.
  bool keep(std::uint64_t open);
  static constexpr std::size_t kLongestLastEvent = 128;
  bool is_full() const { return is_full_; }
  /// Flushes when much has gathered; for a file with a limit, only after keep(). Call it between events.
  void flush_if_large();
  /// Writes all gathered events. After the first error it only discards them: see close().
  void flush();
  /// The size of the file in bytes.
  std::uint64_t bytes() const { return end_; }
  /// The first error since open().
  const Status& error() const { return error_; }
  /// Flushes and closes. Returns the first error since open(), with the path and its cause. After an error
  /// the file holds as many whole events as had room, perhaps none, and the ends of all that begin.
  Status close();

 private:
  TraceFile(OutputFile file, std::uint64_t limit) : file_(std::move(file)), limit_(limit) {}
  /// After an error: cuts the file behind a whole event, and writes the ends of all open events and of the
  /// array.
  void keep_whole_events(std::size_t written);
  /// The ends of all events that are open in the first `bytes` of the file.
  std::string ends_of(std::uint64_t bytes) const;
  /// Calls `take` with each whole event in the first `bytes` of the file, and with the offset of the event's
  /// end.
  bool read_events(std::uint64_t bytes,
                   const std::function<void(std::string_view event, std::uint64_t end)>& take) const;

  OutputFile file_;
  std::uint64_t limit_;
  fmt::memory_buffer events_;
  std::size_t kept_ = 0;  // bytes of `events_` that keep() has kept
  bool is_full_ = false;
  bool any_event_ = false;
  std::uint64_t end_ = 0;  // offset of the next event, which overwrites the closing bracket
  Status error_;
};

}  // namespace dabke::timeline
