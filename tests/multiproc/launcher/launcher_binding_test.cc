// The cores and the number of threads that ranks of the real dabkerun get.
#include <sched.h>

#include <algorithm>
#include <set>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/launcher_run.h"
#include "tests/skip.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using Words = std::vector<std::string>;

/// Prints the allowed cores, as the system writes them, and the number of threads.
const Words kShow{"sh", "-c",
                  "grep Cpus_allowed_list /proc/self/status | cut -f 2; echo threads:$OMP_NUM_THREADS"};

/// An empty variable counts as not set.
Finished run_to_show(Words flags, const std::vector<std::string>& environment = {"OMP_NUM_THREADS="}) {
  flags.emplace_back("--no-prefix");
  flags.insert(flags.end(), kShow.begin(), kShow.end());
  return LauncherRun(flags, {.environment = environment}).finish();
}

int usable_units() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

/// The number of lines of stdout that equal `line`.
std::ptrdiff_t count_of(const Finished& job, const std::string& line) {
  return std::ranges::count(lines_of(job.out), line);
}

}  // namespace

TEST_CASE("ranks that fill what dabkerun may use have each a core of their own, and one thread") {
  const int units = usable_units();
  if (!HWLOC || units < 2) DABKE_SKIP("without hwloc, or with one core, there is nothing to share out");
  const Finished job = run_to_show({"-np", std::to_string(units), "--verbose"});
  if (job.error.find("quota") != std::string::npos) DABKE_SKIP("a control group grants less than there is");
  INFO(job.error);
  CHECK_THAT(job.error, Contains("each is bound to 1 of " + std::to_string(units) + " cores"));
  CHECK(count_of(job, "threads:1") == units);
  const auto lines = lines_of(job.out);
  std::set<std::string> cores(lines.begin(), lines.end());
  cores.erase("threads:1");
  CHECK(cores.size() == static_cast<std::size_t>(units));
}

TEST_CASE("more ranks than cores, and all that --bind-to none starts, may use what dabkerun may") {
  const int units = usable_units();
  const Finished alone = run_to_show({"-np", "1", "--bind-to", "none"});
  REQUIRE(lines_of(alone.out).size() == 2);
  const std::string all = lines_of(alone.out).front();
  CHECK(count_of(alone, "threads:") == 1);
  const Finished many = run_to_show({"-np", std::to_string(units + 1)});
  CHECK(count_of(many, all) == units + 1);
  CHECK(count_of(many, "threads:1") == units + 1);
  const Finished unbound = run_to_show({"-np", std::to_string(units), "--bind-to", "none"});
  CHECK(count_of(unbound, all) == units);
  CHECK(count_of(unbound, "threads:") == units);
}

TEST_CASE("a number of threads that the user has set stays, and one rank has that of its program") {
  CHECK(count_of(run_to_show({"-np", "2"}, {"OMP_NUM_THREADS=7"}), "threads:7") == 2);
  CHECK(count_of(run_to_show({"-np", "2", "-x", "OMP_NUM_THREADS@1=5"}), "threads:5") == 1);
  CHECK(count_of(run_to_show({"-np", "1", "--verbose"}), "threads:") == 1);
}

}  // namespace dabke::test
