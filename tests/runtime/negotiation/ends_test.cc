#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {

using Catch::Contains;
using Catch::StartsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a rank that shuts down fails what waits for it, by name, and other process sets go on") {
  SimulatedJob job(3);
  for (Rank rank = 0; rank < 3; ++rank) {
    Request request = plain(CollectiveKind::add_process_set, "add_process_set");
    request.ranks = {0, 1};
    job.submit(rank, request);
  }
  job.run();
  const negotiation::Token waits = job.submit(0, allreduce("x"));
  job.negotiator(2).leave(job.now());
  job.advance(milliseconds(0));
  job.run();
  CHECK(job.is_over(2));
  CHECK(job.outcome(waits).status.code() == Code::shut_down);
  CHECK_THAT(job.outcome(waits).status.message(),
             Contains("rank 2 left the job normally, while rank 0 waits for allreduce 'x'; do all ranks run "
                      "the same number of steps? See join()"));
  const negotiation::Token later = job.submit(1, allreduce("y"));
  CHECK(job.outcome(later).status.code() == Code::shut_down);
  job.kill(2);  // its link closes after the goodbye: this is not a loss
  job.run();
  const negotiation::Token pair = job.submit(0, allreduce("z", {4}, 1));
  job.submit(1, allreduce("z", {4}, 1));
  job.run();
  CHECK(job.outcome(pair).ran);
  job.negotiator(0).leave(job.now());
  job.advance(milliseconds(0));
  job.run();
  CHECK(job.is_over(1));
  CHECK(job.all_complete());
}

TEST_CASE("who calls for a rank that has left is told how long ago that was, and for what it waits") {
  SimulatedJob job(3);
  job.negotiator(2).leave(job.now());
  job.advance(milliseconds(0));
  job.run();
  job.advance(milliseconds(300));
  const std::string advice = "; do all ranks run the same number of steps? See join()";
  const auto told = [&](CollectiveKind kind, const std::string& name) {
    return job.outcome(job.submit(0, plain(kind, name))).status.message();
  };
  CHECK(told(CollectiveKind::barrier, "b") ==
        "rank 2 left the job normally 0.3 s before, while rank 0 waits for barrier 'b'" + advice);
  CHECK(job.outcome(job.submit(1, allreduce("x"))).status.message() ==
        "rank 2 left the job normally 0.3 s before, while rank 1 waits for allreduce 'x'" + advice);
}

TEST_CASE("who comes only when others have left as well is told who left first") {
  SimulatedJob job(3);
  for (const Rank rank : {2, 0}) {
    job.negotiator(rank).leave(job.now());
    job.advance(milliseconds(0));
    job.run();
  }
  const negotiation::Token late = job.submit(1, allreduce("x"));
  CHECK_THAT(job.outcome(late).status.message(),
             Contains("rank 2, and then rank 0, left the job normally, while rank 1 waits for"));
}

TEST_CASE("what becomes ready together with a goodbye, and is ordered after it, does not run") {
  SimulatedJob job(3);
  for (Rank rank = 0; rank < 3; ++rank) job.submit(rank, allreduce("x"));
  job.run();  // so that it travels by slot afterwards
  std::vector<negotiation::Token> tokens{job.submit(2, allreduce("x"))};
  job.negotiator(2).leave(job.now());
  job.advance(milliseconds(0));
  tokens.push_back(job.submit(0, allreduce("x")));
  tokens.push_back(job.submit(1, allreduce("x")));
  REQUIRE(job.deliver(2, 0));  // the report
  REQUIRE(job.deliver(2, 0));  // the goodbye
  REQUIRE(job.deliver(1, 0));  // only now all ranks have reported
  job.advance(milliseconds(0));
  job.run();
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).status.code() == Code::shut_down);
  for (const Rank rank : {0, 1, 2}) CHECK(job.executed(rank) == std::vector<std::string>{"0:x"});
  CHECK(job.all_complete());
}

TEST_CASE("a goodbye does not overtake, at a rank on its way, what was reported before it") {
  negotiation::Negotiator::Options options;
  options.topology = tree_of(3, 1, 1);  // 2 reports to 1, 1 to 0
  SimulatedJob job(3, 1, options);
  std::vector<negotiation::Token> tokens;
  for (const Rank rank : {0, 1, 2}) tokens.push_back(job.submit(rank, allreduce("x")));
  job.negotiator(2).leave(job.now());
  job.advance(milliseconds(0));
  REQUIRE(job.deliver(2, 1));  // the report
  REQUIRE(job.deliver(2, 1));  // the goodbye
  job.advance(milliseconds(0));
  job.run();
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).ran);
  CHECK(job.all_complete());
}

TEST_CASE("a lost rank fails everything on every rank with one text that names it") {
  const Rank victim = GENERATE(0, 1, 3);
  SimulatedJob job(4);
  std::vector<negotiation::Token> tokens;
  for (Rank rank = 0; rank < 4; ++rank) {
    if (rank != victim) tokens.push_back(job.submit(rank, allreduce("x")));
  }
  job.run();
  job.kill(victim);
  job.run();
  for (Rank rank = 0; rank < 4; ++rank) {
    if (rank != victim) tokens.push_back(job.submit(rank, allreduce("later")));
  }
  for (const negotiation::Token token : tokens) {
    CHECK(job.outcome(token).completions == 1);
    CHECK(job.outcome(token).status.code() == Code::peer_lost);
    CHECK_THAT(job.outcome(token).status.message(),
               Contains("rank " + std::to_string(victim) + ": connection reset"));
  }
}

TEST_CASE("an abort reaches every rank with its reason") {
  SimulatedJob job(3);
  const negotiation::Token x = job.submit(1, allreduce("x"));
  const negotiation::Token y = job.submit(0, allreduce("y"));
  job.negotiator(2).abort({Code::aborted, "rank 2 aborted the job: loss is NaN"});
  job.advance(milliseconds(0));
  job.run();
  for (const negotiation::Token token : {x, y})
    CHECK_THAT(job.outcome(token).status.message(), Contains("loss is NaN"));
}

TEST_CASE("bytes that are no message end the job and say whose they were") {
  SimulatedJob job(2);
  const negotiation::Token x = job.submit(0, allreduce("x"));
  job.negotiator(0).message_from(1, std::vector{std::byte{77}}, job.now());
  job.advance(milliseconds(0));
  CHECK_THAT(job.outcome(x).status.message(),
             Contains("from rank 1: negotiation message of unknown kind 77"));
}

}  // namespace dabke::test
