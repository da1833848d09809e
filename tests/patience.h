// How long a test waits for what is promised within 2 s or so. Only a defect takes longer, also on a machine
// with more ranks than cores; a sanitizer on a full machine makes everything take many times as long.
#pragma once

#include <chrono>

namespace dabke::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline constexpr std::chrono::seconds kPatience{kSanitized ? 60 : 10};

/// What `attempt(seconds)` gives, for a time limit that is to run out: with the first of some growing limits with which
/// it is right, or else with the last. Where a short one runs out, a busy machine may not have let those come whom the
/// result speaks of.
template <class Attempt, class IsRight>
auto with_enough_time(double seconds, Attempt attempt, IsRight is_right) {
  auto seen = attempt(seconds);
  while (!is_right(seen) && seconds < 15) seen = attempt(seconds *= 4);
  return seen;
}

}  // namespace dabke::test
