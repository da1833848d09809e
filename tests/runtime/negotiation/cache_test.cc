// Slots: what has been seen once is a number from then on.
#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::testing {
namespace {

Machine::Options with_slots(std::size_t capacity) {
  Machine::Options options;
  options.sequencer.cache_capacity = capacity;
  return options;
}

void all_submit(SimulatedJob& job, const Request& request) {
  std::vector<Token> tokens;
  for (Rank rank = 0; rank < job.size(); ++rank) tokens.push_back(job.submit(rank, request));
  job.run();
  for (const Token token : tokens) REQUIRE(job.outcome(token).completions == 1);
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
  CHECK(first > 400);  // the name went up and down
  all_submit(job, request);
  CHECK(job.bytes() - first < 50);
  CHECK(job.machine(1).cache_counts().hits == 1);
}

TEST_CASE("without a cache everything still works, in full each time") {
  SimulatedJob job(3, 1, with_slots(0));
  for (int i = 0; i < 3; ++i) all_submit(job, allreduce("x"));
  CHECK(job.machine(2).cache_counts().hits == 0);
}

TEST_CASE("a changed shape takes the name's place, on every rank") {
  SimulatedJob job(2, 1, with_slots(1));
  for (int i = 0; i < 4; ++i) {
    all_submit(job, allreduce("x", {1 + i / 2}));
    CHECK(job.machine(1).difference_in_tables(job.machine(0)).empty());
  }
  CHECK(job.machine(1).cache_counts().hits == 2);
}

TEST_CASE("the root evicts what was ordered longest ago, and all ranks forget it together") {
  SimulatedJob job(3, 1, with_slots(2));
  for (const char* name : {"a", "b", "a", "c", "a", "b"}) {
    all_submit(job, allreduce(name));
    for (Rank rank = 1; rank < 3; ++rank)
      CHECK(job.machine(rank).difference_in_tables(job.machine(0)).empty());
  }
  // a: hit, hit; b: evicted by c, seen anew.
  CHECK(job.machine(1).cache_counts().hits == 2);
}

TEST_CASE("a report by slot that crosses the slot's eviction still counts") {
  SimulatedJob job(3, 1, with_slots(1));
  all_submit(job, allreduce("a"));
  const Token by_slot = job.submit(2, allreduce("a"));  // under way
  for (Rank rank = 0; rank < 3; ++rank) job.submit(rank, allreduce("b"));
  while (job.step_link(1, 0) || job.step_link(0, 1)) {
  }
  job.run();  // b's order evicts a
  job.submit(0, allreduce("a"));
  job.submit(1, allreduce("a"));
  job.run();
  CHECK(job.outcome(by_slot).ran);
  CHECK(job.all_complete());
}

TEST_CASE("static process sets are there from the start, with the ids 1, 2, ...") {
  Machine::Options options;
  options.static_sets = *parse_process_sets("0,1;2,1", 3);
  SimulatedJob job(3, 1, options);
  const Token x = job.submit(1, allreduce("x", {4}, 2));
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
                                                {"1,2;2,1", "a set of ranks 1, 2 is there twice"},
                                                {"1;3,0,1,2", "a set of ranks 0-3 exists already"}}));
  const Status status = parse_process_sets(text, 4).status();
  CHECK(status.code() == Code::invalid_argument);
  CHECK_THAT(status.message(),
             Catch::Contains("process sets '" + text + "' (of DABKE_PROCESS_SETS") && Catch::Contains(what));
}

}  // namespace dabke::testing
