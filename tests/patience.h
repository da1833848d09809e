// How long a test waits for what is promised within 2 s or so. Only a defect takes longer, also on a machine
// with more ranks than cores; a sanitizer on a full machine makes everything take many times as long.
#pragma once

#include <chrono>

#include "tests/sanitized.h"

namespace dabke::test {

/// Whether what is tested is compiled with a sanitizer; tests themselves may not be.
inline constexpr bool kSanitized = DABKE_TEST_SANITIZED;

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
