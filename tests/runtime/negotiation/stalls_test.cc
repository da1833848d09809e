#include <algorithm>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {

using Catch::Contains;
using Catch::StartsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a stall report names the tensor, who is missing, and what they submitted instead") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.stall_shutdown = seconds(150);
  options.topology =
      std::make_shared<const negotiation::Topology>(3, std::vector<std::string>{"ada", "bob", "cy"}, 8);
  SimulatedJob job(3, 1, options);
  const negotiation::Token x = job.submit(0, allreduce("x"));
  job.submit(2, allreduce("x"));
  job.submit(1, allreduce("other"));
  job.run();
  CHECK(job.negotiator(0).next_tick() == job.now() + seconds(60));
  job.advance(seconds(59));
  CHECK(job.warnings().empty());
  job.advance(seconds(1));
  job.run();
  REQUIRE(job.warnings().size() == 2);
  CHECK_THAT(job.warnings()[1],
             StartsWith("Stalled for 60 s: ranks 0, 2 wait in 'x' (allreduce (sum) of float32 [4]); "));
  CHECK_THAT(job.warnings()[1], Contains("; rank 1 on bob has not called it."));
  CHECK_THAT(job.warnings()[1], Contains("Rank 1: it waits for allreduce 'other' instead"));
  job.advance(seconds(90));
  job.run();
  CHECK(job.outcome(x).status.code() == Code::stalled);
  CHECK_THAT(job.outcome(x).status.message(), Contains("Stalled for 150 s"));
  CHECK(job.all_complete());
}

TEST_CASE("ranks that come one after the other within the stall time are not reported") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  SimulatedJob job(2, 1, options);
  for (int step = 0; step < 10; ++step) {  // the whole loop takes longer than the stall time
    const negotiation::Token x = job.submit(0, allreduce("x"));
    job.run();
    job.advance(seconds(59));
    job.submit(1, allreduce("x"));
    job.run();
    REQUIRE(job.outcome(x).status.is_ok());
  }
  CHECK(job.warnings().empty());
}

TEST_CASE("a stall report says what else was submitted under the same name") {
  negotiation::Negotiator::Options options;
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
             Contains("Rank 2: it waits for allreduce 'grad' in process set 1 instead") &&
                 Contains("Rank 0: it waits for allreduce 'grad' in process set 0 instead"));
}

TEST_CASE("names that failed before everybody had come are not remembered once all have heard of it") {
  negotiation::Negotiator::Options options;
  options.static_sets = {{0, 2}, {0, 1, 2, 3}};
  options.topology = tree_of(5, 1, 2);  // 3 and 4 report to 1; rank 4 never sends anything
  SimulatedJob job(5, 1, options);
  for (int i = 0; i < 10; ++i) {
    const std::string name = fmt::format("grad.{}", i);
    std::vector<negotiation::Token> tokens{job.submit(2, allreduce(name, {4}, 1))};
    for (const Rank rank : {0, 1, 3}) tokens.push_back(job.submit(rank, allreduce(name, {4}, 2)));
    job.run();
    for (int second = 0; second < 4; ++second) {
      job.advance(milliseconds(1000));
      job.run();
    }
    for (const negotiation::Token token : tokens) REQUIRE(job.outcome(token).status.code() == Code::mismatch);
    for (Rank rank = 0; rank < 5; ++rank) CHECK(job.negotiator(rank).remembered() == 0);
  }
}

TEST_CASE("a stall report tells how long, however short it is") {
  const auto [age, text] = GENERATE(table<milliseconds, std::string>({{milliseconds(12), "0.012 s"},
                                                                      {milliseconds(250), "0.25 s"},
                                                                      {milliseconds(3140), "3.1 s"},
                                                                      {milliseconds(60'400), "60 s"}}));
  negotiation::Negotiator::Options options;
  options.stall_check = age;
  SimulatedJob job(2, 1, options);
  job.submit(0, allreduce("x"));
  job.run();
  job.advance(age);
  job.run();
  REQUIRE(job.warnings().size() == 1);
  CHECK_THAT(job.warnings()[0], StartsWith("Stalled for " + text + ": rank 0 waits in 'x'"));
}

TEST_CASE(
    "a stall makes every rank write a dump once, whoever waits, and a failure does before anything "
    "completes") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.stall_shutdown = seconds(150);
  options.topology = std::make_shared<const negotiation::Topology>(7, std::vector<std::string>(7, ""), 2);
  SimulatedJob job(7, 1, options);
  const negotiation::Token x = job.submit(3, allreduce("x"));
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
  const negotiation::Snapshot& waits = job.dumps(3)[0].snapshot;
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
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.gives_stacks = true;
  SimulatedJob job(3, 1, options);
  job.submit(0, allreduce("x"));
  job.run();
  job.advance(seconds(60));
  job.run();
  CHECK(job.warnings().empty());  // none without the stacks
  CHECK(job.stacks_wanted(0) == 0);
  CHECK(job.stacks_wanted(1) == 1);
  CHECK(job.stacks_wanted(2) == 1);
  job.negotiator(1).give_stack(1, "step() at train.cc:7", job.now());
  job.advance(seconds(3));
  job.run();
  REQUIRE(job.warnings().size() == 1);
  CHECK_THAT(job.warnings()[0], Contains("step() at train.cc:7") && Contains("could not be read in time"));
}

TEST_CASE("any rank may ask for dumps of all, which come once for many who ask at a time") {
  negotiation::Negotiator::Options options;
  options.topology = std::make_shared<const negotiation::Topology>(5, std::vector<std::string>(5, ""), 2);
  SimulatedJob job(5, 1, options);
  job.advance(seconds(10));
  for (Rank rank = 4; rank >= 0; --rank)
    job.negotiator(rank).ask_for_dumps("because", negotiation::Negotiator::Dumped::as_asked, job.now());
  job.advance(Duration{});
  job.run();
  for (Rank rank = 0; rank < 5; ++rank) {
    CAPTURE(rank);
    REQUIRE(job.dumps(rank).size() == 1);
    CHECK(job.dumps(rank)[0].reason == "because");
  }
  job.advance(seconds(2));
  job.negotiator(2).ask_for_dumps("again", negotiation::Negotiator::Dumped::as_asked, job.now());
  job.advance(Duration{});
  job.run();
  for (Rank rank = 0; rank < 5; ++rank) CHECK(job.dumps(rank).back().incident == 2);
}

TEST_CASE("a stall is told in full once and when its story changes, else by a line that refers to it") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.stall_shutdown = seconds(250);
  SimulatedJob job(2, 1, options);
  const negotiation::Token x = job.submit(0, allreduce("x"));
  job.run();
  const auto wait = [&job] {
    job.advance(seconds(60));
    job.run();
  };
  wait();
  REQUIRE(job.warnings().size() == 1);
  CHECK_THAT(
      job.warnings()[0],
      Contains("Rank 1: it has not made this call and has no other call pending. It has made no call yet."));
  CHECK(job.briefs().back() == "Stalled for 60 s: 'x' waits for rank 1; dabkerun prints the details.");
  wait();
  REQUIRE(job.warnings().size() == 2);
  CHECK(job.briefs().back().empty());  // the warning is short already
  CHECK(job.warnings()[1] == "Still stalled, for 120 s: 'x' waits for rank 1, as reported 60 s ago.");
  job.submit(1, allreduce("other"));
  job.run();
  wait();
  REQUIRE(job.warnings().size() == 4);  // and one of 'other'
  CHECK_THAT(job.warnings()[3],
             StartsWith("Stalled for 180 s: rank 0 waits in 'x' (allreduce (sum) of float32 [4]); ") &&
                 Contains("Rank 1: it waits for allreduce 'other' instead"));
  wait();
  job.advance(seconds(10));
  job.run();
  CHECK(job.outcome(x).status.code() == Code::stalled);
  CHECK_THAT(job.outcome(x).status.message(),
             Contains("Stalled for 250 s: rank 0 waits in 'x'") && Contains("shows where it was"));
}

TEST_CASE("a second wait of the same name is told in full again") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  SimulatedJob job(2, 1, options);
  for (int time = 1; time <= 2; ++time) {
    job.submit(0, allreduce("x"));
    job.run();
    job.advance(seconds(60));
    job.run();
    REQUIRE(job.warnings().size() == static_cast<std::size_t>(time));
    CHECK_THAT(job.warnings().back(), StartsWith("Stalled for 60 s: rank 0 waits in 'x' (allreduce"));
    job.submit(1, allreduce("x"));
    job.run();
    job.advance(seconds(1));
  }
}

TEST_CASE("a wait among ranks of one host that the root has no part in ends the job too") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.stall_shutdown = seconds(100);
  options.static_sets = {{2, 3}};
  options.topology = tree_of(4, 2, 8);
  SimulatedJob job(4, 1, options);
  const negotiation::Token x = job.submit(2, allreduce("x", {4}, 1));
  job.run();
  for (int i = 0; i < 11; ++i) {
    job.advance(seconds(10));
    job.run();
  }
  REQUIRE(job.warnings().size() == 1);
  CHECK_THAT(job.warnings()[0], Contains("; rank 3 on node1 has not called it."));
  CHECK(job.outcome(x).status.code() == Code::stalled);
  for (Rank rank = 0; rank < 4; ++rank) CHECK(job.is_over(rank));
}

TEST_CASE("a join that a rank does not come to is reported and ends the job") {
  const Rank late = GENERATE(0, 1, 2);
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.stall_shutdown = seconds(150);
  options.topology = tree_of(3, 1, 1);
  SimulatedJob job(3, 1, options);
  std::vector<negotiation::Token> joins;
  for (Rank rank = 0; rank < 3; ++rank) {
    if (rank != late) joins.push_back(job.submit(rank, plain(CollectiveKind::join, "join")));
  }
  job.run();
  const auto wait = [&job](seconds time) {
    job.advance(time);
    job.run();
  };
  wait(seconds(59));
  CHECK(job.warnings().empty());
  wait(seconds(1));
  REQUIRE(job.warnings().size() == 1);
  CHECK_THAT(job.warnings()[0], StartsWith("Stalled for 60 s: ranks ") &&
                                    Contains(" wait in join; rank " + std::to_string(late) + " on "));
  wait(seconds(90));
  for (const negotiation::Token join : joins) {
    CHECK(job.outcome(join).status.code() == Code::stalled);
    CHECK_THAT(job.outcome(join).status.message(),
               Contains("Stalled for 150 s: ranks ") && Contains(" wait in join; rank "));
  }
}

TEST_CASE("a rank that has joined is not waited for, though the rank through which it reports is") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.topology = tree_of(4, 2, 8);
  SimulatedJob job(4, 1, options);
  job.submit(3, plain(CollectiveKind::join, "join"));
  job.submit(0, allreduce("x"));
  job.run();
  job.advance(seconds(60));
  job.run();
  const auto about_x = [](const std::string& text) { return text.find("'x'") != std::string::npos; };
  const auto warning = std::ranges::find_if(job.warnings(), about_x);
  REQUIRE(warning != job.warnings().end());
  CHECK_THAT(*warning, Contains("; ranks 1, 2 have not called it.") && !Contains("Rank 3"));
}

TEST_CASE("a join is no stall as long as the others go on, and is one after that") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.stall_shutdown = seconds(100);
  const Rank early = GENERATE(0, 1);
  SimulatedJob job(3, 1, options);
  const negotiation::Token join = job.submit(early, plain(CollectiveKind::join, "join"));
  job.run();
  for (int step = 0; step < 10; ++step) {
    for (Rank rank = 0; rank < 3; ++rank) {
      if (rank != early) job.submit(rank, allreduce("x"));
    }
    job.run();
    job.advance(seconds(40));
    job.run();
  }
  CHECK(job.warnings().empty());
  CHECK(job.outcome(join).completions == 0);
  job.advance(seconds(20));
  job.run();
  CHECK(job.warnings().size() == 1);
  job.advance(seconds(40));
  job.run();
  CHECK(job.outcome(join).status.code() == Code::stalled);
}

namespace {

/// All ranks run order 7 for so long, except that rank 1 may run `elsewhere`, or may be stopped (`silent`).
struct LongRun {
  explicit LongRun(std::optional<negotiation::Negotiator::Running> elsewhere, bool silent, seconds age,
                   Rank teller)
      : job(3, 1, options()) {
    if (silent) job.stop(1);
    const negotiation::Negotiator::Running run{7, kWorldSet, "allreduce 'x' (order 7)", job.now() - age};
    job.negotiator(teller).note_long_run(run, job.now());
    job.advance(Duration{});
    job.run();
    for (Rank rank = 0; rank < 3; ++rank) {
      if (job.stacks_wanted(rank) == 0) continue;
      if (rank != 1 || elsewhere) job.negotiator(rank).note_running(rank == 1 ? *elsewhere : run, job.now());
      job.negotiator(rank).give_stack(static_cast<std::uint64_t>(job.stacks_wanted(rank)), "somewhere",
                                      job.now());
    }
    job.advance(Duration{});
    job.run();
    if (silent) {
      job.advance(seconds(5));
      job.run();
    }
  }
  static negotiation::Negotiator::Options options() {
    negotiation::Negotiator::Options options;
    options.stall_check = seconds(60);
    options.stall_shutdown = seconds(100);
    options.gives_stacks = true;
    options.process_of = [](Rank rank) { return "process of " + std::to_string(rank); };
    return options;
  }
  SimulatedJob job;
};

}  // namespace

TEST_CASE("a batch that does not end names the rank that stands still, and ends the job in time") {
  const Rank teller = GENERATE(0, 2);
  LongRun warned({}, true, seconds(60), teller);
  REQUIRE(warned.job.warnings().size() == 1);
  CHECK_THAT(
      warned.job.warnings()[0],
      StartsWith(
          "Stalled for 65 s: allreduce 'x' (order 7) has started on ranks 0, 2 and has not finished.") &&
          Contains("rank 1 does not answer: process of 1.") && !Contains("network"));
  CHECK_FALSE(warned.job.is_over(0));
  const LongRun ended({}, true, seconds(100), teller);
  CHECK(ended.job.is_over(0));
  CHECK(ended.job.is_over(2));
}

TEST_CASE("of ranks that are inside different operations the report says so and does not blame the network") {
  const negotiation::Negotiator::Running other{8, kWorldSet, "allreduce 'y' (order 8)", TimePoint{}};
  const LongRun run(other, false, seconds(60), 0);
  REQUIRE(run.job.warnings().size() == 1);
  CHECK_THAT(run.job.warnings()[0], Contains("the ranks are inside different operations, so they wait for "
                                             "each other; the network is not the cause") &&
                                        Contains("Rank 1: it is inside allreduce 'y' (order 8)") &&
                                        Contains("somewhere"));
}

TEST_CASE("where all ranks are inside the batch, the report says that nobody is missing") {
  const LongRun run(negotiation::Negotiator::Running{7, kWorldSet, "allreduce 'x' (order 7)", TimePoint{}},
                    false, seconds(60), 0);
  REQUIRE(run.job.warnings().size() == 1);
  CHECK_THAT(run.job.warnings()[0], Contains("All ranks of the set are inside it"));
}

TEST_CASE("a rank that runs something else is not said to have nothing pending") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.gives_stacks = true;
  SimulatedJob job(2, 1, options);
  job.submit(0, allreduce("x"));
  job.run();
  job.advance(seconds(60));
  job.run();
  REQUIRE(job.stacks_wanted(1) == 1);
  job.negotiator(1).note_running({3, 1, "allgather 'y' (order 3)", job.now() - seconds(70)}, job.now());
  job.negotiator(1).give_stack(1, "", job.now());
  job.advance(Duration{});
  job.run();
  REQUIRE(job.warnings().size() == 1);
  CHECK_THAT(job.warnings()[0],
             Contains("Rank 1: it is inside allgather 'y' (order 3), started 70.0 s ago and not finished") &&
                 !Contains("no other call pending"));
}

TEST_CASE("a root that stands still is reported by those who wait, and they end by themselves") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.stall_shutdown = seconds(100);
  options.process_of = [](Rank rank) { return fmt::format("its process {} is stopped", 4000 + rank); };
  options.topology = tree_of(4, 1, 8);
  SimulatedJob job(4, 1, options);
  job.stop(0);
  std::vector<negotiation::Token> waits;
  for (const Rank rank : {1, 2}) waits.push_back(job.submit(rank, allreduce("x")));
  waits.push_back(job.submit(3, plain(CollectiveKind::join, "join")));
  const auto wait = [&job](seconds time) {
    job.advance(time);
    job.run();
  };
  wait(seconds(60));
  CHECK(job.warnings().empty());  // it may only be busy
  wait(seconds(5));
  for (const Rank rank : {1, 2, 3}) {
    CAPTURE(rank);
    REQUIRE(job.warnings(rank).size() == 1);
    CHECK_THAT(job.warnings(rank)[0],
               StartsWith("Stalled for 65 s: ") && Contains(rank == 3 ? "join" : "'x'") &&
                   Contains("rank 0 on node0, through which rank " + std::to_string(rank)) &&
                   Contains("does not answer: its process 4000 is stopped."));
    REQUIRE(job.dumps(rank).size() == 1);
    CHECK(job.dumps(rank)[0].incident == job.dumps(1)[0].incident);
  }
  wait(seconds(35));
  wait(seconds(5));
  for (const negotiation::Token token : waits) {
    CHECK(job.outcome(token).status.code() == Code::stalled);
    CHECK_THAT(job.outcome(token).status.message(), Contains("its process 4000 is stopped"));
  }
}

TEST_CASE("a leader that stands still is reported by its host and by the root") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.topology = tree_of(6, 3, 8);
  SimulatedJob job(6, 1, options);
  for (Rank rank = 0; rank < 6; ++rank) {
    if (rank != 3) job.submit(rank, allreduce("x"));
  }
  job.stop(3);
  job.run();
  for (int i = 0; i < 14; ++i) {
    job.advance(seconds(5));
    job.run();
  }
  for (const Rank rank : {4, 5}) {
    REQUIRE(job.warnings(rank).size() == 1);
    CHECK_THAT(job.warnings(rank)[0],
               Contains("rank 3 on node1, through which rank ") && Contains("does not answer"));
  }
  REQUIRE(job.warnings(0).size() == 1);
  CHECK_THAT(job.warnings(0)[0], Contains("rank 3 on node1 does not answer: its process") &&
                                     Contains("rank 4 on node1 does not answer: it reports through rank 3"));
}

TEST_CASE("a parent that is there is not reported, however long its ranks wait") {
  negotiation::Negotiator::Options options;
  options.stall_check = seconds(60);
  options.topology = tree_of(7, 1, 2);
  SimulatedJob job(7, 1, options);
  for (Rank rank = 1; rank < 7; ++rank) job.submit(rank, allreduce("x"));
  for (int i = 0; i < 60; ++i) {
    job.run();
    job.advance(seconds(5));
  }
  job.run();
  CHECK(job.warnings().size() == job.warnings(0).size());
  CHECK(job.warnings(0).size() == 5);
}

}  // namespace dabke::test
