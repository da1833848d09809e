#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace dabke {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

inline constexpr TimePoint kNever = TimePoint::max();

/// Converts seconds to a Duration; saturates instead of overflowing.
constexpr Duration seconds_to_duration(double seconds) {
  constexpr double kMost = 1e9;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(seconds < kMost ? seconds : kMost));
}

/// The time `seconds` from now; kNever if that is negative.
inline TimePoint deadline_after(double seconds) {
  return seconds < 0 ? kNever : Clock::now() + seconds_to_duration(seconds);
}

/// The interval at which to send a sign of life to a peer that counts us as lost after `patience`; zero: it
/// never does.
constexpr Duration beat_interval(Duration patience) {
  constexpr Duration kMost = std::chrono::seconds(1), kLeast = std::chrono::milliseconds(10);
  return patience <= Duration::zero() ? kMost : std::clamp(patience / 4, kLeast, kMost);
}

/// Milliseconds since `since`. 0 if that is later than `now`, which happens when another thread has set it
/// meanwhile.
constexpr std::uint64_t age_ms(TimePoint since, TimePoint now) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - since).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, ms));
}

/// Milliseconds left until `deadline` for poll-like calls, rounded up; 0 if it is over, -1 for ever.
inline int poll_timeout_ms(TimePoint deadline, TimePoint now = Clock::now()) {
  if (deadline == kNever) return -1;
  if (deadline <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return left > 1'000'000'000 ? 1'000'000'000 : static_cast<int>(left);
}

}  // namespace dabke
