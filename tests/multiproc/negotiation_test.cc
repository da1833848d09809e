// The decisions that the ranks agree on, between real processes. They run through the C API and dabke.hpp,
// over every channel and in every tree.
//
//   by default                   each pair of these, at least once
//   DABKE_TEST_MATRIX=full       every combination
//   a sanitizer, or over MPI     each one once
#include <catch2/catch.hpp>

#include <functional>
#include <optional>

#include "runtime/base/bytes.h"
#include "tests/conformance/matrix.h"
#include "tests/facts.h"
#include "tests/multiproc/negotiation_jobs.h"
#include "tests/patience.h"
#include "tests/seed.h"

namespace dabke::test {
namespace {

/// Runs the scenario with both programs, over all channels, in these trees; two jobs run in parallel.
void check_everywhere(const std::string& scenario, const std::vector<Tree>& trees,
                      const std::function<std::vector<std::string>(const Tree&)>& environment = {}) {
  const std::vector<std::string> all_channels = channels();
  const std::vector<std::string> programs = {C_WORKER, CPP_WORKER};
  const auto count = [](const auto& all) { return static_cast<int>(all.size()); };
  const std::vector<int> counts = {count(trees), count(all_channels), count(programs)};
  const bool each_once = test::kSanitized || (all_channels.size() == 1 && test::jobs_are_pairwise());
  std::vector<Job> jobs;
  for (const auto& row : each_once ? test::each_choice(counts, test::seed_of_run())
                                   : test::choose_rows(counts, test::jobs_are_pairwise())) {
    const Tree& tree = trees[to_size(row[0])];
    jobs.push_back({all_channels[to_size(row[1])],
                    tree,
                    {programs[to_size(row[2])], scenario},
                    environment ? environment(tree) : std::vector<std::string>{}});
  }
  const auto check = [](const Job& job, JobRun& run) {
    const Finished finished = run.finish();
    CAPTURE(job.command, job.channel, job.tree.name, finished.exit_code, finished.out, finished.error);
    CHECK(all_done(finished, job.tree.ranks));
  };
  for (std::size_t i = 0; i < jobs.size(); i += 2) {
    JobRun run(jobs[i]);
    std::optional<JobRun> beside;
    if (i + 1 < jobs.size()) beside.emplace(jobs[i + 1]);
    check(jobs[i], run);
    if (beside) check(jobs[i + 1], *beside);
  }
}

}  // namespace

TEST_CASE("process sets are added, asked about, used and removed") {
  check_everywhere("process-sets", trees());
}

TEST_CASE("process sets come from DABKE_PROCESS_SETS and from the options of init") {
  check_everywhere("static-sets", trees(), [](const Tree& tree) -> std::vector<std::string> {
    return {"DABKE_PROCESS_SETS=" + std::to_string(tree.ranks - 1)};
  });
}

TEST_CASE("process sets are added and removed by their members alone, in another order on each rank") {
  check_everywhere("sets-among-members", trees());
}

TEST_CASE(
    "process sets in a ring, such as a triangle, do not deadlock when each rank submits in its own order") {
  check_everywhere("ring-of-sets", trees_from(3));
}

TEST_CASE("ranks with uneven data join, count no more, and learn who was the last") {
  check_everywhere("join", trees());
}

TEST_CASE("a group is reduced as a whole, and fails as a whole with one text on all ranks") {
  check_everywhere("groups", trees());
}

TEST_CASE("a barrier waits for every rank, whichever is late") { check_everywhere("barrier", trees()); }

TEST_CASE("who waits for a before submitting b does not wait for the batch that was learned of both") {
  for (const std::string disabled : {"0", "1"}) {
    CAPTURE(disabled);
    check_everywhere("learned", {trees().front()}, [&](const Tree&) -> std::vector<std::string> {
      return {"DABKE_DISABLE_LEARNED_BATCHES=" + disabled};
    });
  }
}

}  // namespace dabke::test
