#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace dabke {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

inline constexpr TimePoint kNever = TimePoint::max();

/// Seconds as a double to a Duration; saturates instead of overflowing.
constexpr Duration seconds_to_duration(double seconds) {
  constexpr double kMost = 1e9;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(seconds < kMost ? seconds : kMost));
}

/// `now + wait`, where a negative wait means for ever.
inline TimePoint deadline_after(double seconds) {
  return seconds < 0 ? kNever : Clock::now() + seconds_to_duration(seconds);
}

/// How often to give a sign of life to one that takes us for lost after `patience`; zero: it never does.
constexpr Duration beat_interval(Duration patience) {
  constexpr Duration kMost = std::chrono::seconds(1), kLeast = std::chrono::milliseconds(10);
  return patience <= Duration::zero() ? kMost : std::clamp(patience / 4, kLeast, kMost);
}

/// How long ago `since` was, in milliseconds; 0 where it is later, as what another thread has noted meanwhile
/// may be.
constexpr std::uint64_t age_ms(TimePoint since, TimePoint now) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - since).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, ms));
}

/// Milliseconds left until `deadline` for poll-like calls: -1 for ever, rounded up, never negative otherwise.
inline int poll_timeout_ms(TimePoint deadline, TimePoint now = Clock::now()) {
  if (deadline == kNever) return -1;
  if (deadline <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return left > 1'000'000'000 ? 1'000'000'000 : static_cast<int>(left);
}

}  // namespace dabke
