#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::testing {

using Catch::Contains;
using Catch::StartsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a stall report names the tensor, who is missing, and what they submitted instead") {
  Machine::Options options;
  options.stall_check = seconds(60);
  options.stall_shutdown = seconds(150);
  options.topology = std::make_shared<const Topology>(3, std::vector<std::string>{"ada", "bob", "cy"}, 8);
  SimulatedJob job(3, 1, options);
  const Token x = job.submit(0, allreduce("x"));
  job.submit(2, allreduce("x"));
  job.submit(1, allreduce("other"));
  job.run();
  CHECK(job.machine(0).next_tick() == job.now() + seconds(60));
  job.advance(seconds(59));
  CHECK(job.warnings().empty());
  job.advance(seconds(1));
  job.run();
  REQUIRE(job.warnings().size() == 2);
  CHECK_THAT(job.warnings()[1], StartsWith("Stalled for 60 s: 'x' (allreduce (sum) of float32 [4])"));
  CHECK_THAT(job.warnings()[1], Contains("submitted by ranks 0, 2 and is waited for from rank 1 on bob"));
  CHECK_THAT(job.warnings()[1], Contains("Rank 1 has submitted instead: 'other'"));
  job.advance(seconds(90));
  job.run();
  CHECK(job.outcome(x).status.code() == Code::stalled);
  CHECK_THAT(job.outcome(x).status.message(), Contains("Stalled for 150 s"));
  CHECK(job.all_complete());
}

TEST_CASE("ranks that come one after the other within the stall time are not reported") {
  Machine::Options options;
  options.stall_check = seconds(60);
  SimulatedJob job(2, 1, options);
  for (int step = 0; step < 10; ++step) {  // longer than the stall time as a whole
    const Token x = job.submit(0, allreduce("x"));
    job.run();
    job.advance(seconds(59));
    job.submit(1, allreduce("x"));
    job.run();
    REQUIRE(job.outcome(x).status.is_ok());
  }
  CHECK(job.warnings().empty());
}

TEST_CASE("a mismatch of process sets waits for the last rank of both, and then names all") {
  Machine::Options options;
  options.static_sets = {{0, 2}};
  SimulatedJob job(3, 1, options);
  std::vector<Token> tokens{job.submit(0, allreduce("grad")), job.submit(2, allreduce("grad", {4}, 1))};
  const auto advance = [&job](milliseconds by) {
    job.advance(by);
    job.run();
  };
  const bool joins = GENERATE(false, true);
  const milliseconds late =
      GENERATE(milliseconds(0), milliseconds(500), milliseconds(1500), milliseconds(9000));
  CAPTURE(joins, late.count());
  for (milliseconds slept{}; slept < late; slept += milliseconds(500)) {
    job.run();
    advance(milliseconds(500));
  }
  for (const Token token : tokens) CHECK(job.outcome(token).completions == 0);
  if (joins) {
    job.submit(1, plain(CollectiveKind::join, "join"));
  } else {
    tokens.push_back(job.submit(1, allreduce("grad")));
  }
  job.run();
  for (milliseconds waited{}; waited < late + milliseconds(1000); waited += milliseconds(100)) {
    advance(milliseconds(100));
  }
  for (const Token token : tokens) {
    CHECK(job.outcome(token).completions == 1);
    CHECK(job.outcome(token).status.code() == Code::mismatch);
    CHECK_THAT(job.outcome(token).status.message(), StartsWith("Mismatched process set for 'grad'"));
    CHECK_THAT(job.outcome(token).status.message(),
               Contains(joins ? "rank 0 submitted" : "ranks 0, 1 submitted"));
    CHECK_THAT(job.outcome(token).status.message(), Contains("rank 2 submitted"));
  }
}

TEST_CASE("a mismatch of process sets is looked for no more while its error waits to be ordered") {
  Machine::Options options;
  options.static_sets = {{0, 1}};
  options.topology = tree_of(3, 3, 8);
  SimulatedJob job(3, 1, options);
  std::vector<Token> failed{job.submit(0, allreduce("x", {4}, 1))};
  job.run();
  job.advance(milliseconds(500));
  for (const Rank rank : {1, 2}) failed.push_back(job.submit(rank, allreduce("x")));
  job.run();
  job.advance(milliseconds(500));  // the root asks about set 1
  for (const Rank rank : {1, 2}) REQUIRE(job.step_link(0, rank));
  for (const Rank rank : {1, 2}) REQUIRE(job.deliver(rank, 0));  // both names are to fail
  job.advance(milliseconds(500));  // and the world's has waited for a second as well
  for (const Rank rank : {1, 2}) {
    while (job.step_link(0, rank)) {
    }
  }
  for (const Token token : failed) CHECK(job.outcome(token).status.code() == Code::mismatch);
  std::vector<Token> next;
  for (const Rank rank : {1, 2, 0}) next.push_back(job.submit(rank, allreduce("x")));
  job.run();
  for (const Token token : next) CHECK(job.outcome(token).ran);
  CHECK(job.all_complete());
}

TEST_CASE("a stall report says what else was submitted under the same name") {
  Machine::Options options;
  options.stall_check = seconds(2);
  options.static_sets = {{0, 2}};
  SimulatedJob job(3, 1, options);
  job.submit(0, allreduce("grad"));
  job.submit(2, allreduce("grad", {4}, 1));
  for (int i = 0; i < 4; ++i) {
    job.run();
    job.advance(milliseconds(500));
  }
  job.run();
  REQUIRE(job.warnings().size() == 2);
  CHECK_THAT(job.warnings()[0] + job.warnings()[1],
             Contains("Rank 2 has submitted instead: 'grad' in process set 1.") &&
                 Contains("Rank 0 has submitted instead: 'grad' in process set 0."));
}

TEST_CASE("names that failed before everybody had come are not remembered once all have heard of it") {
  Machine::Options options;
  options.static_sets = {{0, 2}, {0, 1, 2, 3}};
  options.topology = tree_of(5, 1, 2);  // 3 and 4 report to 1; rank 4 never says anything
  SimulatedJob job(5, 1, options);
  for (int i = 0; i < 10; ++i) {
    const std::string name = fmt::format("grad.{}", i);
    std::vector<Token> tokens{job.submit(2, allreduce(name, {4}, 1))};
    for (const Rank rank : {0, 1, 3}) tokens.push_back(job.submit(rank, allreduce(name, {4}, 2)));
    job.run();
    for (int second = 0; second < 4; ++second) {
      job.advance(milliseconds(1000));
      job.run();
    }
    for (const Token token : tokens) REQUIRE(job.outcome(token).status.code() == Code::mismatch);
    for (Rank rank = 0; rank < 5; ++rank) CHECK(job.machine(rank).remembered() == 0);
  }
}

TEST_CASE("a stall report tells how long, however short it is") {
  const auto [age, text] = GENERATE(table<milliseconds, std::string>({{milliseconds(12), "0.012 s"},
                                                                      {milliseconds(250), "0.25 s"},
                                                                      {milliseconds(3140), "3.1 s"},
                                                                      {milliseconds(60'400), "60 s"}}));
  Machine::Options options;
  options.stall_check = age;
  SimulatedJob job(2, 1, options);
  job.submit(0, allreduce("x"));
  job.run();
  job.advance(age);
  job.run();
  REQUIRE(job.warnings().size() == 1);
  CHECK_THAT(job.warnings()[0], StartsWith("Stalled for " + text + ": 'x'"));
}

TEST_CASE(
    "a stall makes every rank write a dump once, whoever waits, and a failure does before anything "
    "completes") {
  Machine::Options options;
  options.stall_check = seconds(60);
  options.stall_shutdown = seconds(150);
  options.topology = std::make_shared<const Topology>(7, std::vector<std::string>(7, ""), 2);
  SimulatedJob job(7, 1, options);
  const Token x = job.submit(3, allreduce("x"));
  job.submit(0, allreduce("y"));
  job.run();
  job.advance(seconds(60));
  job.run();
  REQUIRE(job.warnings().size() >= 2);
  for (Rank rank = 0; rank < 7; ++rank) {
    CAPTURE(rank);
    REQUIRE(job.dumps(rank).size() == 1);
    CHECK(job.dumps(rank)[0].incident == 1);
    CHECK_FALSE(job.dumps(rank)[0].job_fails);
  }
  const Snapshot& waits = job.dumps(3)[0].snapshot;
  REQUIRE(waits.pending.size() == 1);
  CHECK(waits.pending[0].token == x);
  CHECK(waits.pending[0].request->name == "x");
  CHECK(waits.sets.at(kWorldSet).size() == 7);
  job.advance(seconds(90));
  job.run();
  CHECK(job.outcome(x).status.code() == Code::stalled);
  for (Rank rank = 0; rank < 7; ++rank) {
    CAPTURE(rank);
    CHECK(job.dumps(rank).back().job_fails);
    CHECK_THAT(job.dumps(rank).back().reason, Contains("Stalled for 150 s"));
  }
  CHECK(job.dumps(3).back().snapshot.pending.size() == 1);
}

TEST_CASE(
    "a stall report carries the stacks of the ranks that are waited for, or says that there are none in "
    "time") {
  Machine::Options options;
  options.stall_check = seconds(60);
  options.gives_stacks = true;
  SimulatedJob job(3, 1, options);
  job.submit(0, allreduce("x"));
  job.run();
  job.advance(seconds(60));
  job.run();
  CHECK(job.warnings().empty());  // not without the stacks
  CHECK(job.stacks_wanted(0) == 0);
  CHECK(job.stacks_wanted(1) == 1);
  CHECK(job.stacks_wanted(2) == 1);
  job.machine(1).give_stack("step() at train.cc:7", job.now());
  job.advance(seconds(3));
  job.run();
  REQUIRE(job.warnings().size() == 1);
  CHECK_THAT(job.warnings()[0], Contains("step() at train.cc:7") && Contains("could not be had in time"));
}

TEST_CASE("any rank may ask for dumps of all, which come once for many who ask at a time") {
  Machine::Options options;
  options.topology = std::make_shared<const Topology>(5, std::vector<std::string>(5, ""), 2);
  SimulatedJob job(5, 1, options);
  job.advance(seconds(10));
  for (Rank rank = 4; rank >= 0; --rank) job.machine(rank).ask_for_dumps("because", Machine::Dumped::as_asked, job.now());
  job.advance(Duration{});
  job.run();
  for (Rank rank = 0; rank < 5; ++rank) {
    CAPTURE(rank);
    REQUIRE(job.dumps(rank).size() == 1);
    CHECK(job.dumps(rank)[0].reason == "because");
  }
  job.advance(seconds(2));
  job.machine(2).ask_for_dumps("again", Machine::Dumped::as_asked, job.now());
  job.advance(Duration{});
  job.run();
  for (Rank rank = 0; rank < 5; ++rank) CHECK(job.dumps(rank).back().incident == 2);
}

}  // namespace dabke::testing
