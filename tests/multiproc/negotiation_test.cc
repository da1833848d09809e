// What the ranks agree on, between real processes: through the C API and dabke.hpp, over every channel, in
// every tree.
#include <catch2/catch.hpp>

#include <functional>

#include "tests/facts.h"
#include "tests/multiproc/negotiation_jobs.h"

namespace dabke {
namespace {

/// Runs the scenario with both programs, side by side, over all channels in these trees.
void check_everywhere(const std::string& scenario, const std::vector<Tree>& trees,
                      const std::function<std::vector<std::string>(const Tree&)>& environment = {}) {
  for (const Tree& tree : trees) {
    for (const std::string& channel : channels()) {
      const auto job = [&](const std::string& program) {
        return Job{
            channel, tree, {program, scenario}, environment ? environment(tree) : std::vector<std::string>{}};
      };
      JobRun c_run(job(C_WORKER)), cpp_run(job(CPP_WORKER));
      for (auto& [api, run] : {std::pair("C", &c_run), std::pair("C++", &cpp_run)}) {
        const Finished finished = run->finish();
        CAPTURE(api, channel, tree.name, finished.exit_code, finished.out, finished.error);
        CHECK(all_done(finished, tree.ranks));
      }
    }
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

}  // namespace dabke
