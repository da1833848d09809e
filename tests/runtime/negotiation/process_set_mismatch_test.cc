#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {

using Catch::Contains;
using Catch::StartsWith;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("one name in two process sets, each waiting for the other's ranks, is a mismatch after a second") {
  SimulatedJob job(3);
  for (Rank rank = 0; rank < 3; ++rank) {
    Request request = plain(CollectiveKind::add_process_set, "add_process_set");
    request.ranks = {0, 1};
    job.submit(rank, request);
  }
  job.run();
  const negotiation::Token a = job.submit(0, allreduce("x", {4}, 1));
  const negotiation::Token b = job.submit(1, allreduce("x", {4}, kWorldSet));
  const negotiation::Token c = job.submit(2, allreduce("x", {4}, kWorldSet));
  job.run();
  job.advance(milliseconds(500));
  CHECK(job.outcome(a).completions == 0);
  job.advance(milliseconds(600));
  job.run();
  for (const negotiation::Token token : {a, b, c}) {
    CHECK_THAT(job.outcome(token).status.message(), StartsWith("Mismatched process set for 'x'"));
    CHECK_THAT(job.outcome(token).status.message(), Contains("rank 0 submitted"));
    CHECK_THAT(job.outcome(token).status.message(), Contains("ranks 1, 2 submitted"));
  }
}

TEST_CASE("a mismatch of process sets waits for the last rank of both, and then names all") {
  negotiation::Negotiator::Options options;
  options.static_sets = {{0, 2}};
  SimulatedJob job(3, 1, options);
  std::vector<negotiation::Token> tokens{job.submit(0, allreduce("grad")),
                                         job.submit(2, allreduce("grad", {4}, 1))};
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
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).completions == 0);
  if (joins) {
    job.submit(1, plain(CollectiveKind::join, "join"));
  } else {
    tokens.push_back(job.submit(1, allreduce("grad")));
  }
  job.run();
  for (milliseconds waited{}; waited < late + milliseconds(1000); waited += milliseconds(100)) {
    advance(milliseconds(100));
  }
  for (const negotiation::Token token : tokens) {
    CHECK(job.outcome(token).completions == 1);
    CHECK(job.outcome(token).status.code() == Code::mismatch);
    CHECK_THAT(job.outcome(token).status.message(), StartsWith("Mismatched process set for 'grad'"));
    CHECK_THAT(job.outcome(token).status.message(),
               Contains(joins ? "rank 0 submitted" : "ranks 0, 1 submitted"));
    CHECK_THAT(job.outcome(token).status.message(), Contains("rank 2 submitted"));
  }
}

TEST_CASE("barriers of two sets in opposite orders are no mismatch, however far apart they come") {
  negotiation::Negotiator::Options options;
  options.static_sets = {{0, 1}, {0, 1, 2}};
  SimulatedJob job(3, 1, options);
  const auto barrier = [](ProcessSetId set) {
    Request request = plain(CollectiveKind::barrier, "barrier");
    request.process_set = set;
    return request;
  };
  std::vector<negotiation::Token> tokens{job.submit(0, barrier(1)), job.submit(1, barrier(2)),
                                         job.submit(2, barrier(2))};
  for (int second = 0; second < 20; ++second) {
    job.run();
    job.advance(seconds(1));
  }
  tokens.push_back(job.submit(0, barrier(2)));
  tokens.push_back(job.submit(1, barrier(1)));
  job.run();
  for (const negotiation::Token token : tokens) {
    CHECK(job.outcome(token).status.message() == "");
    CHECK(job.outcome(token).completions == 1);
  }
}

TEST_CASE("one name in two sets in opposite orders is no mismatch as long as ranks go on to submit") {
  negotiation::Negotiator::Options options;
  options.static_sets = {{0, 1}, {0, 1, 2}};
  SimulatedJob job(3, 1, options);
  std::vector<negotiation::Token> tokens{job.submit(0, allreduce("x", {4}, 1)),
                                         job.submit(1, allreduce("x", {4}, 2)),
                                         job.submit(2, allreduce("x", {4}, 2))};
  for (int i = 0; i < 40; ++i) {
    for (const Rank rank : {0, 1}) job.submit(rank, allreduce(fmt::format("step {}", i), {4}, 1));
    job.run();
    job.advance(milliseconds(250));
  }
  tokens.push_back(job.submit(0, allreduce("x", {4}, 2)));
  tokens.push_back(job.submit(1, allreduce("x", {4}, 1)));
  job.run();
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).ran);
}

TEST_CASE("a mismatch of process sets is looked for no more while its error waits to be ordered") {
  negotiation::Negotiator::Options options;
  options.static_sets = {{0, 1}};
  options.topology = tree_of(3, 3, 8);
  SimulatedJob job(3, 1, options);
  std::vector<negotiation::Token> failed{job.submit(0, allreduce("x", {4}, 1))};
  job.run();
  job.advance(milliseconds(500));
  for (const Rank rank : {1, 2}) failed.push_back(job.submit(rank, allreduce("x")));
  job.run();
  job.advance(milliseconds(500));  // the root asks about set 1
  for (const Rank rank : {1, 2}) REQUIRE(job.step_link(0, rank));
  for (const Rank rank : {1, 2}) REQUIRE(job.deliver(rank, 0));  // both names must fail
  job.advance(milliseconds(500));  // the request of the world has also waited for a second
  for (const Rank rank : {1, 2}) {
    while (job.step_link(0, rank)) {
    }
  }
  for (const negotiation::Token token : failed) CHECK(job.outcome(token).status.code() == Code::mismatch);
  std::vector<negotiation::Token> next;
  for (const Rank rank : {1, 2, 0}) next.push_back(job.submit(rank, allreduce("x")));
  job.run();
  for (const negotiation::Token token : next) CHECK(job.outcome(token).ran);
  CHECK(job.all_complete());
}

}  // namespace dabke::test
