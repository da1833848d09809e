// Random jobs against the invariants: one sequence, exactly-once completion, and nothing left over.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {
namespace {

/// The calls of rank `of`, in order, that belong to sets that both ranks are in. Each has its set in front.
std::vector<std::string> shared(SimulatedJob& job, const std::vector<std::string>& ran, Rank of, Rank with) {
  std::vector<std::string> out;
  for (const std::string& one : ran) {
    const auto set = static_cast<ProcessSetId>(std::stoi(one));
    if (job.negotiator(of).sets().contains(set, with)) out.push_back(one);
  }
  return out;
}

negotiation::Negotiator::Options random_options(std::mt19937& random) {
  negotiation::Negotiator::Options options;
  options.sequencer.cache_capacity = random() % 2 == 0 ? 1 + random() % 8 : 1000;
  options.sequencer.learned_batch_bytes = random() % 2 == 0 ? 0 : 100;
  options.sequencer.fusion = {.threshold = random() % 4 == 0 ? 200 : 1 << 20, .alone = 1 << 20};
  return options;
}

}  // namespace

TEST_CASE("ranks that submit in different random orders run one sequence, and every token completes once") {
  const unsigned seed = GENERATE(take(60, random(1, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const int size = 1 + static_cast<int>(random() % 6);
  SimulatedJob job(size, seed, random_options(random));
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
      if (i % 20 % 3 == 1) request.device_type = DeviceType::cuda;
      if (i % 7 == 0) request = plain(CollectiveKind::barrier, "barrier " + std::to_string(i), set);
      for (Rank rank = 0; rank < size; ++rank) {
        if (job.negotiator(rank).sets().contains(set, rank)) todo.emplace_back(rank, request);
      }
    }
    // Each rank has its own order, but equal names keep theirs: the n-th call
    // of a name is the same on all ranks.
    std::ranges::shuffle(todo, random);
    for (auto& [rank, request] : todo) {
      job.submit(rank, std::move(request));
      if (random() % 3 == 0) job.step();
      if (random() % 8 == 0)
        job.negotiator(0).set_data_plane_busy(kDeviceTypes[random() % kDeviceTypeCount], random() % 2 == 0);
    }
    job.run();
    for (const DeviceType type : kDeviceTypes) job.negotiator(0).set_data_plane_busy(type, false);
    job.advance(std::chrono::milliseconds(1));
    job.run();
  }
  CHECK(job.all_complete());
  CHECK_NOTHROW(job.check_quiet());
  for (Rank a = 0; a < size; ++a) {
    for (Rank b = a + 1; b < size; ++b) {
      CHECK(shared(job, job.executed(a), a, b) == shared(job, job.executed(b), b, a));
      CHECK(shared(job, job.batches(a), a, b) == shared(job, job.batches(b), b, a));
    }
  }
}

TEST_CASE("whatever rank dies whenever, every token of the survivors completes exactly once") {
  const unsigned seed = GENERATE(take(60, random(1, 1 << 30)));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const int size = 2 + static_cast<int>(random() % 4);
  SimulatedJob job(size, seed);
  const Rank victim = static_cast<Rank>(random() % static_cast<unsigned>(size));
  std::vector<negotiation::Token> survivors;
  const int death = static_cast<int>(random() % 40);
  for (int i = 0; i < 40; ++i) {
    if (i == death) {
      if (random() % 2 == 0) {
        job.negotiator(victim).leave(job.now());
        job.advance(std::chrono::milliseconds(0));
      } else {
        job.kill(victim);
      }
    }
    for (Rank rank = 0; rank < size; ++rank) {
      if (rank == victim && i >= death) continue;
      const negotiation::Token token = job.submit(rank, allreduce("t" + std::to_string(i)));
      if (rank != victim) survivors.push_back(token);
    }
    if (random() % 2 == 0) job.step();
  }
  job.run();
  for (Rank rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    job.negotiator(rank).leave(job.now());
    job.advance(std::chrono::milliseconds(0));
  }
  job.run();
  for (const negotiation::Token token : survivors) CHECK(job.outcome(token).completions == 1);
}

}  // namespace dabke::test
