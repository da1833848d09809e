// The time for which a test waits for an event that is promised within about 2 s. Only a defect takes longer,
// also on a machine with more ranks than cores. A sanitizer on a full machine makes everything many times
// slower.
#pragma once

#include <chrono>

#include "tests/sanitized.h"

namespace dabke::test {

/// True if the code under test is compiled with a sanitizer. The tests themselves may be compiled without
/// one.
inline constexpr bool kSanitized = DABKE_TEST_SANITIZED;

inline constexpr std::chrono::seconds kPatience{kSanitized ? 60 : 10};

/// Returns the result of `attempt(seconds)` for a time limit that is meant to run out. The limit grows until
/// the result is right, or returns the last result. With a short limit on a busy machine, some of the ranks
/// that the result is about may not have arrived yet.
template <class Attempt, class IsRight>
auto with_enough_time(double seconds, Attempt attempt, IsRight is_right) {
  auto seen = attempt(seconds);
  while (!is_right(seen) && seconds < 15) seen = attempt(seconds *= 4);
  return seen;
}

}  // namespace dabke::test
