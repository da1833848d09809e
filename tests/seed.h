// What tests choose by chance, they choose again.
#pragma once

#include <cstdlib>
#include <random>

namespace dabke::test {

/// DABKE_TEST_SEED, or a random number.
inline unsigned seed_of_run() {
  const char* given = std::getenv("DABKE_TEST_SEED");
  return given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
}

}  // namespace dabke::test
