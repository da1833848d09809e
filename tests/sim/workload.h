// A random job for the simulator: what every rank submits, in which order, and what must come of it.
#pragma once

#include <string>

#include "tests/sim/sim.h"

namespace dabke::test {

struct RunResult {
  std::string text;  // one line: what kind of job it was
  std::uint64_t events = 0;
  std::uint64_t orders = 0;
};

/// Runs the job of this seed. `ranks` 0: the seed decides. Throws Violation.
RunResult run_random_job(unsigned seed, int ranks);

}  // namespace dabke::test
