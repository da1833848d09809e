// A random elastic job for the simulator: its hosts and limits, its program, and what happens to it.
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/elastic/elastic_world.h"

namespace dabke::test {

struct ElasticResult {
  std::string text;  // one line: the kind of job, and its end
  std::uint64_t events = 0;
  std::uint64_t epochs = 0;
  std::uint64_t losses = 0;      // of members
  std::uint64_t lost_roots = 0;  // of these, rank 0
  std::uint64_t refusals = 0;    // of processes that were written off and came
  std::uint64_t leavers = 0;     // members that left in good order
  std::uint64_t newcomers = 0;
  std::uint64_t commits = 0;
  std::uint64_t ended_well = 0;  // jobs

  ElasticResult& operator+=(const ElasticResult& other);
};

/// Runs the job of this seed. Throws Violation.
ElasticResult run_elastic_job(unsigned seed, Mistake mistake = Mistake::none);

}  // namespace dabke::test
