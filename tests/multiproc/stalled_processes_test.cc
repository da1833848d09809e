// A rank that never submits the tensor that the others wait for, in real processes.
#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/facts.h"
#include "tests/multiproc/negotiation_jobs.h"
#include "tests/patience.h"
#include "tests/seed.h"

namespace dabke::test {
namespace {

using Catch::Contains;

struct Case {
  int missing;
  std::string others;  // in the words of reports
  Tree tree;
};

/// The missing rank is the root, a leaf, or a rank in the middle.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Tree& tree : trees()) {
    if (tree.ranks == 2) all.insert(all.end(), {{0, "rank 1 on ", tree}, {1, "rank 0 on ", tree}});
    if (tree.ranks == 3) all.push_back({2, "ranks 0, 1", tree});
    if (tree.name == "four in a chain")
      all.insert(all.end(), {{0, "ranks 1-3", tree}, {1, "ranks 0, 2, 3", tree}});
  }
  return all;
}

/// The report in the error with which the rank's tensor ended; empty if the rank did not print it.
std::string end_of(const Finished& finished, int rank) {
  for (const std::string& line : lines_of(finished.out)) {
    const auto report = line.find("Stalled for ");
    if (line.starts_with("[" + std::to_string(rank) + "]<stdout>:ended stalled: ") &&
        report != std::string::npos)
      return line.substr(report);
  }
  return "";
}

JobRun start_stalled(const std::string& channel, const Case& one, const std::string& scenario) {
  Job job{channel, one.tree, {CPP_WORKER, scenario}};
  // The shutdown time is long enough for ranks to arrive, and for answers to reports, with stacks. Otherwise
  // a report that is still incomplete would become the final one.
  job.environment = {"DABKE_TEST_MISSING=" + std::to_string(one.missing), "DABKE_STALL_CHECK_TIME_SECONDS=2",
                     "DABKE_STALL_SHUTDOWN_TIME_SECONDS=10"};
  return JobRun(job);
}

/// Runs every case over every channel; under a sanitizer, over one channel. Calls `check(channel, case, its
/// end)`. The jobs mostly wait, so several run in parallel. MPI polls for messages without a pause, so only
/// two jobs run over MPI.
template <class Check>
void check_stalled(const std::string& scenario, Check check) {
  std::vector<std::string> over = channels();
  if (test::kSanitized) over = {over[test::seed_of_run() % over.size()]};
  const std::string channel = GENERATE_COPY(from_range(over));
  const std::vector<Case> all = cases();
  const std::size_t at_once = channel.starts_with("mpi") ? 2 : all.size();
  for (std::size_t first = 0; first < all.size(); first += at_once) {
    const std::size_t last = std::min(all.size(), first + at_once);
    std::vector<JobRun> runs;
    for (std::size_t i = first; i < last; ++i) runs.push_back(start_stalled(channel, all[i], scenario));
    for (std::size_t i = first; i < last; ++i) check(channel, all[i], runs[i - first].finish());
  }
}

}  // namespace

TEST_CASE(
    "a rank that submits something else is named with it, and all ranks end by the text of the report") {
  check_stalled("stall-instead", [](const std::string& channel, const Case& one, const Finished& finished) {
    CAPTURE(channel, one.tree.name, one.missing, finished.out, finished.error);
    const std::string late = std::to_string(one.missing);
    CHECK(finished.exit_code == 3);
    CHECK_THAT(finished.error, Contains("dabke rank 0 warning] Stalled for "));
    CHECK_THAT(finished.error,
               Contains(" waits for rank " + late + " on ") || Contains("; rank " + late + " on "));
    const std::string end = end_of(finished, 0);
    // Both names are stalled, and either may be the first to have stalled for the whole time.
    CHECK_THAT(end, Contains("'gradient'") && Contains("'something else'") &&
                        Contains("rank " + late + " on ") && Contains(one.others));
    for (int rank = 1; rank < one.tree.ranks; ++rank) CHECK(end_of(finished, rank) == end);
  });
}

TEST_CASE("a rank that submits nothing is named, and the others end by the text of the report") {
  check_stalled("stall-idle", [](const std::string& channel, const Case& one, const Finished& finished) {
    CAPTURE(channel, one.tree.name, one.missing, finished.out, finished.error);
    const std::string late = std::to_string(one.missing);
    const std::string instead = "Rank " + late + ": it has not made this call and has no other call pending.";
    CHECK(finished.exit_code == 3);
    CHECK_THAT(finished.error, Contains("dabke rank 0 warning] Stalled for "));
    const std::string end = end_of(finished, one.missing == 0 ? 1 : 0);
    CHECK_THAT(end, Contains(one.others) &&
                        Contains(" in 'gradient' (allreduce (sum) of float32 [4]); rank " + late + " on "));
    CHECK_THAT(end, Contains(" has not called it.") && Contains(instead));
    for (int rank = 0; rank < one.tree.ranks; ++rank) {
      if (rank != one.missing) CHECK(end_of(finished, rank) == end);
    }
  });
}

}  // namespace dabke::test
