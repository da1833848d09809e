// Announced changes of the job's hosts, which ride on the orders of the world.
#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {
namespace {

constexpr Rank kRoot = negotiation::Negotiator::kRoot;

/// Submits the request on all ranks, and returns the changes that it carries there.
std::vector<std::uint64_t> changes_of(SimulatedJob& job, const Request& request) {
  std::vector<negotiation::Token> tokens;
  for (Rank rank = 0; rank < job.size(); ++rank) tokens.push_back(job.submit(rank, request));
  job.run();
  std::vector<std::uint64_t> changes;
  for (const negotiation::Token token : tokens) {
    CHECK(job.outcome(token).completions == 1);
    changes.push_back(job.outcome(token).changes);
  }
  return changes;
}

std::vector<std::uint64_t> all(const SimulatedJob& job, std::uint64_t changes) {
  return std::vector<std::uint64_t>(static_cast<std::size_t>(job.size()), changes);
}

}  // namespace

TEST_CASE("an announced change sends nothing, and comes with the next operation of the world") {
  SimulatedJob job(5);
  CHECK(changes_of(job, allreduce("x")) == all(job, 0));
  const std::size_t before = job.messages();
  job.negotiator(kRoot).announce_change(7);
  job.advance({});
  job.run();
  CHECK(job.messages() == before);
  CHECK(changes_of(job, allreduce("x")) == all(job, 7));
  CHECK(changes_of(job, allreduce("a new name")) == all(job, 7));
  CHECK(changes_of(job, plain(CollectiveKind::barrier, "")) == all(job, 7));
  CHECK(changes_of(job, plain(CollectiveKind::join, "")) == all(job, 7));
  job.negotiator(kRoot).announce_change(8);
  CHECK(changes_of(job, plain(CollectiveKind::barrier, "")) == all(job, 8));
  job.check_quiet();
}

TEST_CASE("an operation of some ranks carries no change, and leaves it for the next of the world") {
  negotiation::Negotiator::Options options;
  options.static_sets = {{1, 2}};
  SimulatedJob job(4, 1, options);
  job.negotiator(kRoot).announce_change(1);
  std::vector<negotiation::Token> tokens;
  for (const Rank rank : {1, 2}) tokens.push_back(job.submit(rank, allreduce("x", {4}, 1)));
  job.run();
  for (const negotiation::Token token : tokens) {
    CHECK(job.outcome(token).completions == 1);
    CHECK(job.outcome(token).changes == 0);
  }
  CHECK(changes_of(job, allreduce("y")) == all(job, 1));
}

TEST_CASE("ranks that run the same operations in any order see a change with the same ones") {
  const auto seed = GENERATE(range(1U, 40U));
  constexpr int kRanks = 6, kSteps = 12, kNames = 3;
  negotiation::Negotiator::Options options;
  options.topology = tree_of(kRanks, 2, 1);
  SimulatedJob job(kRanks, seed, options);
  std::mt19937 random(seed);
  std::uint64_t announced = 0;
  // tokens[step][name][rank]
  std::vector<std::vector<std::vector<negotiation::Token>>> tokens;
  for (int step = 0; step < kSteps; ++step) {
    auto& of_step = tokens.emplace_back(kNames);
    for (auto& of_name : of_step) of_name.resize(kRanks);
    for (Rank rank = 0; rank < kRanks; ++rank) {
      std::vector<int> names{0, 1, 2};
      std::ranges::shuffle(names, random);
      for (const int name : names) {
        of_step[static_cast<std::size_t>(name)][static_cast<std::size_t>(rank)] =
            job.submit(rank, allreduce("x" + std::to_string(name)));
        for (auto left = random() % 4; left > 0; --left) job.step();
        if (random() % 20 == 0) job.negotiator(kRoot).announce_change(++announced);
      }
    }
  }
  job.run();
  std::uint64_t most = 0;
  for (const auto& of_step : tokens) {
    for (const auto& of_name : of_step) {
      for (const negotiation::Token token : of_name) {
        REQUIRE(job.outcome(token).completions == 1);
        CHECK(job.outcome(token).changes == job.outcome(of_name.front()).changes);
        most = std::max(most, job.outcome(token).changes);
      }
    }
  }
  CHECK(most <= announced);
  CHECK(changes_of(job, allreduce("last")) == all(job, announced));
  job.check_quiet();
}

}  // namespace dabke::test
