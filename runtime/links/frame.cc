#include "runtime/links/frame.h"

#include <fmt/format.h>

#include "runtime/links/little_endian.h"

namespace dabke::links {

std::array<std::byte, kFrameHeaderBytes> frame_header(std::size_t length) {
  std::array<std::byte, kFrameHeaderBytes> header{};
  store_le(static_cast<std::uint32_t>(length), header.data());
  store_le(~static_cast<std::uint32_t>(length), header.data() + 4);
  return header;
}

std::span<std::byte> FrameDecoder::writable() {
  constexpr std::size_t kLeast = 2048;
  return bytes_.writable(kLeast);
}

Status FrameDecoder::deliver(FrameSink& sink) {
  while (bytes_.size() >= kFrameHeaderBytes) {
    const auto length_sent = load_le<std::uint32_t>(bytes_.readable().data());
    const std::size_t length = length_sent;
    if (load_le<std::uint32_t>(bytes_.readable().data() + 4) != ~length_sent) {
      return {Code::transport,
              "received bytes that are not a message; the stream is damaged or the peer is not a rank of "
              "this job"};
    }
    if (length > kMaxFrameBytes) {
      return {Code::transport, fmt::format("received a message length of {} bytes, above the limit of {}; "
                                           "the stream is damaged or the peer is not a rank of this job",
                                           length, kMaxFrameBytes)};
    }
    if (bytes_.size() < kFrameHeaderBytes + length) return {};
    sink.on_frame(bytes_.readable().subspan(kFrameHeaderBytes, length));
    bytes_.consume(kFrameHeaderBytes + length);
  }
  return {};
}

}  // namespace dabke::links
