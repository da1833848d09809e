// Random jobs against the invariants: one sequence, exactly-once completion, nothing left over.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::testing {
namespace {

/// What rank a and rank b both ran of the sets they share, in order.
std::vector<std::string> shared(SimulatedJob& job, Rank of, Rank with) {
  std::vector<std::string> out;
  for (const std::string& name : job.executed(of)) {
    const auto set = static_cast<ProcessSetId>(std::stoi(name));
    if (job.machine(of).sets().contains(set, with)) out.push_back(name);
  }
  return out;
}

}  // namespace

TEST_CASE("ranks that submit in different random orders run one sequence, and every token completes once") {
  const unsigned seed = GENERATE(take(60, random(1, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const int size = 1 + static_cast<int>(random() % 6);
  SimulatedJob job(size, seed);
  std::vector<ProcessSetId> sets{kWorldSet};
  for (int i = 0; i < 2 && size > 2; ++i) {
    Request request = plain(CollectiveKind::add_process_set, "add_process_set");
    for (Rank rank = 0; rank < size; ++rank) {
      if (rank % (2 + i) == 0) request.ranks.push_back(rank);
    }
    for (Rank rank = 0; rank < size; ++rank) job.submit(rank, request);
    sets.push_back(i + 1);
  }
  job.run();
  for (int step = 0; step < 3; ++step) {
    std::vector<std::pair<Rank, Request>> todo;
    for (int i = 0; i < 30; ++i) {
      const ProcessSetId set = sets[random() % sets.size()];
      Request request = allreduce("t" + std::to_string(i % 20), {1 + i % 20}, set);  // some names twice
      for (Rank rank = 0; rank < size; ++rank) {
        if (job.machine(rank).sets().contains(set, rank)) todo.emplace_back(rank, request);
      }
    }
    // Each rank's order is its own, but equal names keep theirs: the n-th of a name is the same everywhere.
    std::ranges::shuffle(todo, random);
    for (auto& [rank, request] : todo) {
      job.submit(rank, std::move(request));
      if (random() % 3 == 0) job.step();
    }
    job.machine(0).set_data_plane_busy(random() % 2 == 0);
    job.run();
    job.machine(0).set_data_plane_busy(false);
    job.advance(std::chrono::milliseconds(1));
    job.run();
  }
  CHECK(job.all_complete());
  CHECK(job.numbers_increase());
  for (Rank a = 0; a < size; ++a) {
    for (Rank b = a + 1; b < size; ++b) CHECK(shared(job, a, b) == shared(job, b, a));
  }
}

TEST_CASE("whatever rank dies whenever, every token of the survivors completes exactly once") {
  const unsigned seed = GENERATE(take(60, random(1, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const int size = 2 + static_cast<int>(random() % 4);
  SimulatedJob job(size, seed);
  const Rank victim = static_cast<Rank>(random() % static_cast<unsigned>(size));
  std::vector<Token> survivors;
  const int death = static_cast<int>(random() % 40);
  for (int i = 0; i < 40; ++i) {
    if (i == death) {
      if (random() % 2 == 0) {
        job.machine(victim).leave(job.now());
        job.advance(std::chrono::milliseconds(0));
      } else {
        job.kill(victim);
      }
    }
    for (Rank rank = 0; rank < size; ++rank) {
      if (rank == victim && i >= death) continue;
      const Token token = job.submit(rank, allreduce("t" + std::to_string(i)));
      if (rank != victim) survivors.push_back(token);
    }
    if (random() % 2 == 0) job.step();
  }
  job.run();
  for (Rank rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    job.machine(rank).leave(job.now());
    job.advance(std::chrono::milliseconds(0));
  }
  job.run();
  for (const Token token : survivors) CHECK(job.outcome(token).completions == 1);
}

}  // namespace dabke::testing
