#include <cstdint>
#include <cstring>

#include "runtime/kernels/highway_targets.h"
#include "runtime/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/stream.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // includes this file again for each instruction set
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace dabke::kernels::HWY_NAMESPACE {

/// `into` begins at a line, and `bytes` is a multiple of a line.
void stream_lines(std::uint8_t* HWY_RESTRICT into, const std::uint8_t* HWY_RESTRICT from, std::size_t bytes) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t step = hn::Lanes(d);
  constexpr std::size_t kLine = 64;
  for (std::size_t line = 0; line < bytes; line += kLine) {
    for (std::size_t at = line; at < line + kLine; at += step)
      hn::Stream(hn::LoadU(d, from + at), d, into + at);
  }
  hwy::FlushStream();
}

}  // namespace dabke::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dabke::kernels {

HWY_EXPORT(stream_lines);

void stream_copy(void* into, const void* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kWorthWhile = 4 * kLine;
  auto* to = static_cast<std::uint8_t*>(into);
  const auto* data = static_cast<const std::uint8_t*>(from);
  if (bytes >= kWorthWhile) {
    const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % kLine;
    std::memcpy(to, data, head);
    const std::size_t lines = (bytes - head) / kLine * kLine;
    HWY_DYNAMIC_DISPATCH(stream_lines)(to + head, data + head, lines);
    to += head + lines;
    data += head + lines;
    bytes -= head + lines;
  }
  if (bytes != 0) std::memcpy(to, data, bytes);
}

}  // namespace dabke::kernels
#endif
