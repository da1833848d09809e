// Slots: after its first use, a request travels as a number.
#include <algorithm>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "runtime/call/process_set_list.h"
#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {
namespace {

negotiation::Negotiator::Options with_slots(std::size_t capacity) {
  negotiation::Negotiator::Options options;
  options.sequencer.cache_capacity = capacity;
  return options;
}

void all_submit(SimulatedJob& job, const Request& request) {
  std::vector<negotiation::Token> tokens;
  for (Rank rank = 0; rank < job.size(); ++rank) tokens.push_back(job.submit(rank, request));
  job.run();
  for (const negotiation::Token token : tokens) REQUIRE(job.outcome(token).completions == 1);
}

}  // namespace

TEST_CASE("every collective is cached: its second negotiation travels as a number") {
  const auto kind =
      GENERATE(CollectiveKind::allreduce, CollectiveKind::allgather, CollectiveKind::broadcast,
               CollectiveKind::reducescatter, CollectiveKind::alltoall, CollectiveKind::barrier);
  SimulatedJob job(2);
  Request request =
      kind == CollectiveKind::barrier ? plain(kind, std::string(200, 'n')) : allreduce(std::string(200, 'n'));
  request.kind = kind;
  all_submit(job, request);
  const std::size_t first = job.bytes();
  CHECK(first > 400);  // the name went up and down the tree
  all_submit(job, request);
  CHECK(job.bytes() - first < 50);
  CHECK(job.negotiator(1).cache_counts().hits == 1);
}

TEST_CASE("without a cache everything still works, in full each time") {
  SimulatedJob job(3, 1, with_slots(0));
  for (int i = 0; i < 3; ++i) all_submit(job, allreduce("x"));
  CHECK(job.negotiator(2).cache_counts().hits == 0);
}

TEST_CASE("a changed shape takes the name's place, on every rank") {
  SimulatedJob job(2, 1, with_slots(1));
  for (int i = 0; i < 4; ++i) {
    all_submit(job, allreduce("x", {1 + i / 2}));
    CHECK(negotiation::difference_in_tables(job.negotiator(1).state(), job.negotiator(0).state()).empty());
  }
  CHECK(job.negotiator(1).cache_counts().hits == 2);
}

TEST_CASE("the root evicts what was ordered longest ago, and all ranks forget it together") {
  SimulatedJob job(3, 1, with_slots(2));
  for (const char* name : {"a", "b", "a", "c", "a", "b"}) {
    all_submit(job, allreduce(name));
    for (Rank rank = 1; rank < 3; ++rank)
      CHECK(
          negotiation::difference_in_tables(job.negotiator(rank).state(), job.negotiator(0).state()).empty());
  }
  // a: hit, hit; b: evicted by c, so it is new again.
  CHECK(job.negotiator(1).cache_counts().hits == 2);
}

TEST_CASE("a report by slot that crosses the slot's eviction still counts") {
  SimulatedJob job(3, 1, with_slots(1));
  all_submit(job, allreduce("a"));
  const negotiation::Token by_slot = job.submit(2, allreduce("a"));  // still under way
  for (Rank rank = 0; rank < 3; ++rank) job.submit(rank, allreduce("b"));
  while (job.step_link(1, 0) || job.step_link(0, 1)) {
  }
  job.run();  // the order of b evicts a
  job.submit(0, allreduce("a"));
  job.submit(1, allreduce("a"));
  job.run();
  CHECK(job.outcome(by_slot).ran);
  CHECK(job.all_complete());
}

TEST_CASE("however many names come and go, no rank remembers more of them than reports may be under way") {
  // All ranks work except rank 2. In the flat tree it is a leaf, in the other
  // tree it is between rank 6 and the root.
  const auto [ranks, working] = GENERATE(table<int, std::string>(
      {{3, ""}, {3, "0,1"}, {3, "1,2"}, {7, ""}, {7, "0,1"}, {7, "0,1,3,4,6"}, {7, "6,1"}}));
  CAPTURE(ranks, working);
  negotiation::Negotiator::Options options = with_slots(10);
  options.topology = tree_of(ranks, 1, ranks == 3 ? 8 : 2);
  if (!working.empty()) options.static_sets = *parse_process_sets(working, ranks);
  SimulatedJob job(ranks, 1, options);
  const auto set = static_cast<ProcessSetId>(options.static_sets.size());
  const std::vector<Rank> members = working.empty() ? *options.topology->everybody() : options.static_sets[0];
  std::size_t most = 0;
  for (int step = 0; step < 5000; ++step) {
    for (const Rank rank : members) job.submit(rank, allreduce(fmt::format("x.{}", step), {4}, set));
    job.run();
    for (Rank rank = 0; rank < ranks; ++rank) most = std::max(most, job.negotiator(rank).remembered());
  }
  CHECK(job.all_complete());
  CHECK(most < 1000);
}

TEST_CASE("who leaves the job does not make the others remember for ever what it has not seen") {
  negotiation::Negotiator::Options options = with_slots(10);
  options.static_sets = *parse_process_sets("0,1", 4);
  SimulatedJob job(4, 1, options);
  for (int name = 0; name < 10; ++name) all_submit(job, allreduce(fmt::format("world.{}", name)));
  job.negotiator(3).leave(job.now());
  job.advance(Duration::zero());
  job.run();
  for (int step = 0; step < 2000; ++step) {
    for (const Rank rank : {0, 1}) job.submit(rank, allreduce(fmt::format("x.{}", step), {4}, 1));
    job.run();
  }
  for (Rank rank = 0; rank < 3; ++rank) CHECK(job.negotiator(rank).remembered() < 500);
}

TEST_CASE("word that only says what was seen is rare, and nothing is said while nothing is evicted") {
  negotiation::Negotiator::Options options = with_slots(10);
  options.static_sets = *parse_process_sets("0,1", 3);
  SimulatedJob job(3, 1, options);
  constexpr int kSteps = 5000;
  for (int step = 0; step < kSteps; ++step) {
    for (const Rank rank : {0, 2}) job.submit(rank, allreduce("x", {4}, kWorldSet));
    job.submit(1, allreduce("x", {4}, kWorldSet));
    job.run();
  }
  CHECK(job.messages() == 4 * kSteps);  // two reports and two orders per step
}

TEST_CASE("a report by slot still counts when thousands of evictions are on their way to who sent it") {
  negotiation::Negotiator::Options options = with_slots(10);
  options.static_sets = *parse_process_sets("0,1", 3);
  SimulatedJob job(3, 1, options);
  all_submit(job, allreduce("a"));
  for (int step = 0; step < 3000; ++step) {
    for (const Rank rank : {0, 1}) job.submit(rank, allreduce(fmt::format("x.{}", step), {4}, 1));
    while (job.step_link(1, 0) || job.step_link(0, 1)) {  // nothing reaches rank 2
    }
  }
  std::vector<negotiation::Token> by_slot{job.submit(2, allreduce("a"))};
  while (job.step_link(2, 0)) {
  }
  for (const Rank rank : {0, 1}) by_slot.push_back(job.submit(rank, allreduce("a")));
  job.run();
  for (const negotiation::Token token : by_slot) CHECK(job.outcome(token).ran);
  CHECK(job.negotiator(0).remembered() < 500);
  CHECK(negotiation::difference_in_tables(job.negotiator(2).state(), job.negotiator(0).state()).empty());
}

TEST_CASE("static process sets are there from the start, with the ids 1, 2, ...") {
  negotiation::Negotiator::Options options;
  options.static_sets = *parse_process_sets("0,1;2,1", 3);
  SimulatedJob job(3, 1, options);
  const negotiation::Token x = job.submit(1, allreduce("x", {4}, 2));
  job.submit(2, allreduce("x", {4}, 2));
  job.run();
  CHECK(job.outcome(x).contributors == 2);
  CHECK(job.executed(0).empty());
}

TEST_CASE("a text that is no list of process sets is refused with what is wrong in it") {
  const auto [text, what] =
      GENERATE(table<std::string, std::string>({{"0,x", "'x' is not a rank"},
                                                {"0,4", "there is no rank 4"},
                                                {"0,-1", "there is no rank -1"},
                                                {"1;;2", "a set is empty"},
                                                {"1,1", "a rank is twice in one set"},
                                                {"1,2;2,1", "a set of ranks 1, 2 is given twice"},
                                                {"1;3,0,1,2", "a set of ranks 0-3 exists already"}}));
  const Status status = parse_process_sets(text, 4).status();
  CHECK(status.code() == Code::invalid_argument);
  CHECK_THAT(status.message(), Catch::Contains("process sets '" + text + "' (from DABKE_PROCESS_SETS") &&
                                   Catch::Contains(what));
}

}  // namespace dabke::test
