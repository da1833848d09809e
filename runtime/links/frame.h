// Frames on a byte stream: a length (four bytes, little-endian), the same with every bit turned, then as many bytes. An
// empty frame is a frame. A length alone would take one damaged stream in sixteen for the beginning of a long frame, and
// wait for the rest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"
#include "runtime/links/byte_queue.h"
#include "runtime/links/link.h"

namespace dabke::links {

inline constexpr std::size_t kFrameHeaderBytes = 8;

std::array<std::byte, kFrameHeaderBytes> frame_header(std::size_t length);

/// Cuts a stream into frames. Memory follows what has really come, never what a length claims.
class FrameDecoder {
 public:
  /// Room for the next bytes of the stream; commit() says how many came.
  std::span<std::byte> writable();
  void commit(std::size_t count) { bytes_.commit(count); }
  /// Hands on every whole frame. The error is about a length that no peer of ours would send.
  Status deliver(FrameSink& sink);
  /// Whether the stream stands in the middle of a frame.
  bool mid_frame() const { return !bytes_.empty(); }

 private:
  ByteQueue bytes_;
};

}  // namespace dabke::links
