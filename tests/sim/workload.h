// A random job for the simulator: the calls of every rank, their order, and the expected results.
#pragma once

#include <string>

#include "tests/sim/sim.h"

namespace dabke::test {

struct RunResult {
  std::string text;  // one line: the kind of job
  std::uint64_t events = 0;
  std::uint64_t orders = 0;
};

/// Runs the job of this seed. `ranks` 0: the seed decides. Throws Violation.
RunResult run_random_job(unsigned seed, int ranks);

}  // namespace dabke::test
