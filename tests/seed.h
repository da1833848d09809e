// The seed of a test's random choices, so that a run can be repeated.
#pragma once

#include <cstdlib>
#include <random>

namespace dabke::test {

/// Returns DABKE_TEST_SEED, or a random number if the variable is not set.
inline unsigned seed_of_run() {
  const char* given = std::getenv("DABKE_TEST_SEED");
  return given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
}

}  // namespace dabke::test
