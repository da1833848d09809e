// Frames over two descriptors. No call blocks.
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

  /// Appends a frame to the waiting ones, and writes as much as possible at once.
  void send(std::uint8_t kind, std::string_view content);
  /// The number of bytes that wait to be written.
  std::size_t waiting() const { return waiting_.size() - written_; }
  /// Writes as much as possible. If the other end is gone, drops the waiting bytes.
  void flush();
  /// Closes both directions: the other end sees the end of file.
  void close();
  bool is_open() const { return static_cast<bool>(in_); }

  void add_poll_entries(std::vector<pollfd>& entries) const;
  int in() const { return in_.get(); }

  /// Reads all that has arrived. False once the other end is gone.
  bool read();
  /// Returns the next complete frame that has been read.
  std::optional<Frame> next();
  /// True if the bytes received are not a frame: too long for one.
  bool is_broken() const { return broken_; }

  /// The bytes that have been read and not been taken: other bytes may come before the first frame.
  std::string& raw() { return read_; }

 private:
  Fd in_, out_;
  std::string read_;
  std::size_t taken_ = 0;  // bytes of `read_`
  std::string waiting_;
  std::size_t written_ = 0;  // bytes of `waiting_`
  bool broken_ = false;
};

}  // namespace dabke::launcher
