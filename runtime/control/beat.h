// A beat: the sign of life between neighbours whose process we cannot watch, and the times by which each learns how far
// the other's clock is from its own (clock_offset.h). On a link it is a frame of a tag, which no message begins
// with, and three times; the fourth is when it came.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/base/clock.h"
#include "runtime/links/little_endian.h"

namespace dabke::control {

/// A time of some host's monotonic clock, in nanoseconds. They compare with those of the same host alone.
using HostTime = std::int64_t;

inline HostTime host_time(TimePoint at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

struct Beat {
  HostTime sent = 0;  // by the sender's clock
  HostTime heard_sent =
      0;  // the last beat that it has heard: sent, by the receiver's clock; 0: it has heard none
  HostTime heard_at = 0;  // and came, by the sender's
};

inline constexpr std::byte kBeatTag{0xbe};
inline constexpr std::size_t kBeatBytes = 1 + 3 * sizeof(HostTime);

inline std::array<std::byte, kBeatBytes> encode_beat(const Beat& beat) {
  std::array<std::byte, kBeatBytes> bytes;
  bytes[0] = kBeatTag;
  std::byte* out = bytes.data() + 1;
  for (const HostTime time : {beat.sent, beat.heard_sent, beat.heard_at}) {
    links::store_le(static_cast<std::uint64_t>(time), out);
    out += sizeof time;
  }
  return bytes;
}

/// Nothing when the frame is a message.
inline std::optional<Beat> decode_beat(std::span<const std::byte> frame) {
  if (frame.size() != kBeatBytes || frame[0] != kBeatTag) return std::nullopt;
  const auto time = [&](std::size_t i) {
    return static_cast<HostTime>(links::load_le<std::uint64_t>(frame.data() + 1 + i * sizeof(HostTime)));
  };
  const Beat beat{time(0), time(1), time(2)};
  const auto can_be = [](HostTime at) {
    return at >= 0 && at < HostTime{1} << 61;
  };  // so no difference overflows
  if (!can_be(beat.sent) || !can_be(beat.heard_sent) || !can_be(beat.heard_at)) return std::nullopt;
  return beat;
}

}  // namespace dabke::control
