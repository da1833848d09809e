#include "tests/sim/elastic/elastic_jobs.h"

#include <cstdio>

#include <fmt/format.h>

#include "tests/sim/elastic/elastic_job.h"
#include "tests/sim/pending_tokens.h"

namespace dabke::test {

int run_elastic_jobs(unsigned first, double events) {
  constexpr int kMostFailures = 5;
  ElasticResult sum;
  int jobs = 0, failed = 0;
  for (unsigned seed = first; failed < kMostFailures; ++seed) {
    ++jobs;
    try {
      const ElasticResult result = run_elastic_job(seed);
      sum += result;
      if (events == 0)
        fmt::print("seed {}: {}: {} events, {} epochs\n", seed, result.text, result.events, result.epochs);
    } catch (const Violation& violation) {
      ++failed;
      fmt::print("FAILED seed {}: {}\nreplay: sim --elastic --seed {}\n", seed, violation.what(), seed);
    }
    if (static_cast<double>(sum.events) >= events) break;
  }
  fmt::print("{} elastic jobs of {} events simulated, {} of them failed\n", jobs, sum.events, failed);
  fmt::print(
      "{} epochs; {} members lost, {} of them rank 0; {} joined later, {} left in good order; {} "
      "processes were told that they were written off; {} commits; {} jobs came to their end\n",
      sum.epochs, sum.losses, sum.lost_roots, sum.newcomers, sum.leavers, sum.refusals, sum.commits,
      sum.ended_well);
  return failed == 0 ? 0 : 1;
}

}  // namespace dabke::test
