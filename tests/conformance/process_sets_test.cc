// Process sets beside the world: an order for some ranks only must not change what the other ranks run.
#include <catch2/catch.hpp>

#include "tests/in_process/job.h"

namespace dabke::test {
namespace {

constexpr int kRounds = 20;

/// Runs the world's tensors `a` and `b` on three ranks, with a call of ranks 0 and 1 ordered between them.
/// Rank 1 comes last and submits everything at once. Returns the sums of each rank.
std::vector<std::vector<int>> sums_around(const Setup& setup, const Config& config,
                                          const std::function<Pending(Rank&, int round)>& between) {
  return run_on_ranks(setup, 3, config, [&](Rank& self) {
    std::vector<int> sums;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<int> a = {1};
      std::vector<int> b = {10};
      must(self.barrier());
      std::vector<Pending> pending;
      if (self.rank() == 1) must(self.barrier({.name = "the others have come"}));
      pending.push_back(self.allreduce_async(a, {.name = "a"}));
      if (self.rank() != 2) pending.push_back(between(self, round));
      pending.push_back(self.allreduce_async(b, {.name = "b"}));
      if (self.rank() != 1) must(self.barrier({.name = "the others have come"}));
      for (const Pending& one : pending) (void)one.wait();
      must(pending.front().wait());
      must(pending.back().wait());
      sums.push_back(a[0] + b[0]);
    }
    return sums;
  });
}

Config with_a_pair() {
  Config config = quiet_config();
  config.process_sets = "0,1";
  return config;
}

constexpr ProcessSetId kPair = 1;
const std::vector<std::vector<int>> kRight(3, std::vector<int>(kRounds, 33));

}  // namespace

TEST_CASE("a barrier of some ranks between two tensors of all leaves both right on every rank") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  CHECK(sums_around(backend, with_a_pair(),
                    [](Rank& self, int) { return self.barrier_async({.set = kPair}); }) == kRight);
}

TEST_CASE("a mismatch of some ranks between two tensors of all leaves both right on every rank") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  std::vector<std::vector<int>> data(3, std::vector<int>(8));
  CHECK(sums_around(backend, with_a_pair(), [&](Rank& self, int) {
          std::vector<int>& mine = data[static_cast<std::size_t>(self.rank())];
          mine.resize(static_cast<std::size_t>(4 + self.rank()));
          return self.allreduce_async(mine, {.name = "odd", .set = kPair});
        }) == kRight);
}

TEST_CASE("a slot that some ranks' tensors lose between two tensors of all leaves both right on every rank") {
  const auto backend = GENERATE(from_range(backends_for_threads()));
  Config config = with_a_pair();
  config.cache_capacity = GENERATE(2, 3);
  std::vector<std::vector<int>> data(3, std::vector<int>(1));
  CHECK(sums_around(backend, config, [&](Rank& self, int round) {
          return self.allreduce_async(data[static_cast<std::size_t>(self.rank())],
                                      {.name = "p" + std::to_string(round), .set = kPair});
        }) == kRight);
}

}  // namespace dabke::test
