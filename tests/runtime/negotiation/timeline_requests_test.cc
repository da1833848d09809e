#include "runtime/negotiation/timeline_requests.h"

#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {
namespace {

const wire::TimelineChange kStartA{true, false, "a"};
const wire::TimelineChange kStartB{true, false, "b"};
const wire::TimelineChange kStop{};

/// One rank that makes calls, each after it has followed the call before, as TimelineSwitch does.
class Caller {
 public:
  Caller(SimulatedJob& job, Rank rank) : job_(job), rank_(rank) {}

  /// Makes the next call if possible. Returns whether all calls are done.
  bool go_on(const std::vector<wire::TimelineChange>& calls) {
    const auto& followed = job_.timeline(rank_);
    while (done_ < calls.size()) {
      for (; position_ < followed.size() && followed[position_].second != calls[done_];) ++position_;
      if (position_ == followed.size()) {
        if (!asked_) job_.negotiator(rank_).change_timeline(calls[done_], from_, job_.now());
        asked_ = true;
        position_ = from_;
        return false;
      }
      from_ = ++position_;
      ++done_;
      asked_ = false;
    }
    return true;
  }

 private:
  SimulatedJob& job_;
  const Rank rank_;
  std::size_t done_ = 0;
  std::uint64_t from_ = 0;
  std::uint64_t position_ = 0;
  bool asked_ = false;
};

std::vector<wire::TimelineChange> changes_of(const SimulatedJob& job, Rank rank) {
  std::vector<wire::TimelineChange> changes;
  for (const auto& [order, change] : job.timeline(rank)) changes.push_back(change);
  return changes;
}

}  // namespace

TEST_CASE("ranks that make the same calls at any time start and stop together, and once for each call") {
  const auto seed = GENERATE(range(1U, 30U));
  constexpr int kRanks = 5;
  negotiation::Negotiator::Options options;
  options.topology = tree_of(kRanks, 2, 1);
  SimulatedJob job(kRanks, seed, options);
  const std::vector<wire::TimelineChange> calls = {kStartA, kStop, kStartB, kStop, kStartA, kStop, kStop};
  std::vector<Caller> callers;
  for (Rank rank = 0; rank < kRanks; ++rank) callers.emplace_back(job, rank);
  std::mt19937 random(seed);
  for (bool all = false; !all;) {
    const auto rank = static_cast<Rank>(random() % kRanks);
    for (Rank each = 0; each < kRanks; ++each) job.submit(each, allreduce("x"));
    callers[static_cast<std::size_t>(rank)].go_on(calls);
    for (int i = 0; i < 20; ++i) job.step();
    job.advance({});
    all = true;
    for (Caller& caller : callers) all = caller.go_on(calls) && all;
    job.advance({});
    job.run();
  }
  for (Rank rank = 0; rank < kRanks; ++rank) {
    CHECK(changes_of(job, rank) == calls);
    CHECK(job.timeline(rank) == job.timeline(0));  // between the same two orders
  }
}

TEST_CASE("one rank alone starts and stops for all, as often as it likes") {
  const Rank caller = GENERATE(0, 3);
  SimulatedJob job(4);
  const std::vector<wire::TimelineChange> calls = {kStartA, kStop, kStartA, kStop, kStartA, kStartA, kStop};
  Caller one(job, caller);
  while (!one.go_on(calls)) {
    job.advance({});
    job.run();
  }
  for (Rank rank = 0; rank < 4; ++rank) CHECK(changes_of(job, rank) == calls);
}

TEST_CASE("a start waits while the root holds its path, and other paths do not") {
  const Rank caller = GENERATE(0, 3);
  SimulatedJob job(4);
  const auto settle = [&] {
    job.advance({});
    job.run();
  };
  job.negotiator(0).hold_timeline("./a");
  job.negotiator(caller).change_timeline(kStartB, 0, job.now());
  job.negotiator(caller).change_timeline(kStop, 0, job.now());
  job.negotiator(caller).change_timeline(kStartA, 2, job.now());
  job.negotiator(1).change_timeline(kStartA, 2, job.now());
  settle();
  CHECK(changes_of(job, 2) == std::vector{kStartB, kStop});
  job.negotiator(0).release_timeline("b", job.now());
  settle();
  CHECK(changes_of(job, 2) == std::vector{kStartB, kStop});
  job.negotiator(0).release_timeline("a", job.now());
  settle();
  for (Rank rank = 0; rank < 4; ++rank) CHECK(changes_of(job, rank) == std::vector{kStartB, kStop, kStartA});
}

TEST_CASE("a list of changes finds one from a place on, and forgets the oldest of very many") {
  negotiation::ChangeList<int> list;
  constexpr auto kMost = negotiation::ChangeList<int>::kMost;
  const auto is = [](int wanted) { return [wanted](int one) { return one == wanted; }; };
  for (std::size_t i = 0; i < kMost + 10; ++i) list.add(static_cast<int>(i % 3));
  CHECK(list.size() == kMost + 10);
  CHECK(list.find(0, is(0)) == 12);
  CHECK(list.find(13, is(0)) == 15);
  CHECK(list.find(kMost + 9, is(7)) == list.size());
  CHECK(list.at(15) == 0);
}

}  // namespace dabke::test
