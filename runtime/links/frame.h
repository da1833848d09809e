// Frames on a byte stream: a length (four bytes, little-endian), the same with every bit inverted, then that
// many bytes. A frame may be empty. With a length alone, one damaged stream in sixteen would be taken for the
// beginning of a long frame, and the reader would wait for the rest.
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

/// Cuts a stream into frames. Memory grows with the bytes that have come, never with a claimed length.
class FrameDecoder {
 public:
  /// Room for the next bytes of the stream; commit() takes the number that came.
  std::span<std::byte> writable();
  void commit(std::size_t count) { bytes_.commit(count); }
  /// Passes on every whole frame. Fails if a length is one that no peer of ours sends.
  Status deliver(FrameSink& sink);
  /// True if a part of a frame has come.
  bool mid_frame() const { return !bytes_.empty(); }

 private:
  ByteQueue bytes_;
};

}  // namespace dabke::links
