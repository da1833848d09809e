// A beat is the sign of life between neighbours that cannot watch each other's process. Its times show each
// of them how far the other's clock is from its own (clock_offset.h). On a link, a beat is a frame with a
// tag, with which no message begins, and three times. The fourth time is when the beat came.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/base/clock.h"
#include "runtime/links/little_endian.h"

namespace dabke::control {

/// A time of a host's monotonic clock, in nanoseconds. Only times of one host can be compared.
using HostTime = std::int64_t;

inline HostTime host_time(TimePoint at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

struct Beat {
  HostTime sent = 0;  // by the sender's clock
  HostTime heard_sent =
      0;  // when the last beat that it received was sent, by the receiver's clock; 0 if it received none
  HostTime heard_at = 0;  // when that beat came, by the sender's clock
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

/// Returns nothing if the frame is a message.
inline std::optional<Beat> decode_beat(std::span<const std::byte> frame) {
  if (frame.size() != kBeatBytes || frame[0] != kBeatTag) return std::nullopt;
  const auto time = [&](std::size_t i) {
    return static_cast<HostTime>(links::load_le<std::uint64_t>(frame.data() + 1 + i * sizeof(HostTime)));
  };
  const Beat beat{time(0), time(1), time(2)};
  const auto can_be = [](HostTime at) {
    return at >= 0 && at < HostTime{1} << 61;
  };  // then no difference overflows
  if (!can_be(beat.sent) || !can_be(beat.heard_sent) || !can_be(beat.heard_at)) return std::nullopt;
  return beat;
}

}  // namespace dabke::control
