// Frames over two descriptors, none of which ever blocks the caller.
//
// A frame is the length of its content (4 bytes, little-endian), its kind (1 byte) and its content.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

class FrameChannel {
 public:
  struct Frame {
    std::uint8_t kind = 0;
    std::string_view content;  // until next() or read() is called again
  };

  FrameChannel() = default;
  /// `in` and `out` may be copies of one socket. Both are made non-blocking.
  FrameChannel(Fd in, Fd out) { open(std::move(in), std::move(out)); }
  void open(Fd in, Fd out);

  /// Puts a frame behind those that wait, and writes what can be written at once.
  void send(std::uint8_t kind, std::string_view content);
  /// How many bytes wait to be written.
  std::size_t waiting() const { return waiting_.size() - written_; }
  /// Writes what can be written. What waits for an end that is gone is dropped.
  void flush();
  /// Both ends: the other one sees the end of file.
  void close();
  bool is_open() const { return static_cast<bool>(in_); }

  void add_poll_entries(std::vector<pollfd>& entries) const;
  int in() const { return in_.get(); }

  /// Reads what has come. False once the other end is gone.
  bool read();
  /// The next whole frame that has been read.
  std::optional<Frame> next();
  /// What came is no frame: too long for one.
  bool is_broken() const { return broken_; }

  /// What has been read and not been taken, as it came: before the first frame something else may come.
  std::string& raw() { return read_; }

 private:
  Fd in_, out_;
  std::string read_;
  std::size_t taken_ = 0;  // of it
  std::string waiting_;
  std::size_t written_ = 0;  // of it
  bool broken_ = false;
};

}  // namespace dabke::launcher
