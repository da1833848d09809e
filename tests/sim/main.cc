// sim: runs random jobs and checks the invariants of the negotiation, or of elastic jobs, or prints the table
// of how the negotiation scales.
#include <chrono>
#include <cstdio>
#include <random>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "tests/sim/elastic/elastic_jobs.h"
#include "tests/sim/scaling.h"
#include "tests/sim/workload.h"

namespace {

constexpr unsigned kFixedSeeds = 400;
// Jobs that once failed. Causes: a slot that was evicted while its name was deferred, or ready at the root;
// an old slot of a learned batch; barriers of two sets in opposite orders.
constexpr unsigned kOnceFailed[] = {3819197819, 4192617531, 3271939239, 1725715333, 490150101,  1361215735,
                                    758327347,  1589558469, 1981738341, 1736954469, 2280891507, 1061327473};

/// Adds the events of the job to `events`.
bool run(unsigned seed, int ranks, bool verbose, std::uint64_t& events) {
  try {
    const auto result = dabke::test::run_random_job(seed, ranks);
    events += result.events;
    if (verbose) {
      fmt::print("seed {}: {}: {} events, {} orders executed\n", seed, result.text, result.events,
                 result.orders);
    }
    return true;
  } catch (const dabke::test::Violation& violation) {
    fmt::print("FAILED seed {}: {}\nreplay: sim --seed {}{}\n", seed, violation.what(), seed,
               ranks > 0 ? fmt::format(" --ranks {}", ranks) : "");
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Simulates the negotiation of many ranks under random delays, and checks that it keeps its promises."};
  unsigned seed = 0;
  int ranks = 0;
  double for_seconds = 0;
  unsigned fixed_seeds = kFixedSeeds;
  double events = 0;
  int scaling = 0, scaling_from = 16;
  bool is_elastic = false;
  app.add_option("--seed", seed, "Run the job of this seed alone, and say what it was.");
  app.add_option("--fixed", fixed_seeds, "How many of the fixed seeds to begin with.");
  app.add_option("--ranks", ranks, "With so many ranks; unless given, the seed decides.")
      ->check(CLI::Range(1, 65536));
  app.add_option("--for", for_seconds, "Seconds to go on with new random seeds after the fixed ones.");
  app.add_option("--events", events, "Go on with new random seeds for so many events at least, such as 1e8.")
      ->check(CLI::Range(0.0, 1e15));
  app.add_flag("--elastic", is_elastic,
               "Instead, simulate elastic jobs: the job of --seed, or with --events the jobs of all seeds "
               "from there on.");
  app.add_option("--scaling", scaling,
                 "Instead, print the table of what negotiation costs, up to so many ranks.");
  app.add_option("--scaling-from", scaling_from,
                 "With --scaling: begin with so many ranks, then four times as many.")
      ->check(CLI::Range(2, 65536))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (scaling > 0) return dabke::test::print_scaling(scaling_from, scaling);
  if (is_elastic) return dabke::test::run_elastic_jobs(seed == 0 ? 1 : seed, events);
  std::uint64_t simulated = 0;
  if (seed != 0) return run(seed, ranks, true, simulated) ? 0 : 1;

  int failed = 0;
  int ran = 0;
  for (unsigned fixed = 1; fixed <= fixed_seeds && failed < 5; ++fixed, ++ran)
    failed += !run(fixed, ranks, false, simulated);
  for (const unsigned once : kOnceFailed) {
    failed += !run(once, 0, false, simulated);
    ++ran;
  }
  for (unsigned fixed = 1; fixed <= 3 && failed < 5; ++fixed, ++ran)
    failed += !run(fixed, 256, false, simulated);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(for_seconds);
  std::random_device source;
  const auto goes_on = [&] {
    return std::chrono::steady_clock::now() < end || static_cast<double>(simulated) < events;
  };
  for (; goes_on() && failed < 5; ++ran) failed += !run(source() | 1U, ranks, false, simulated);
  fmt::print("{} random jobs of {} events simulated, {} of them failed\n", ran, simulated, failed);
  return failed == 0 ? 0 : 1;
}
