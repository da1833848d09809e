// Ranks that wait in different calls of a sequence, in which all ranks must make the same calls.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using std::chrono::milliseconds;

Request in_sequence(const std::string& name, std::uint64_t sequence = 7, ProcessSetId set = kWorldSet) {
  Request request = allreduce(name, {4}, set);
  request.call_sequence = sequence;
  return request;
}

void pass(SimulatedJob& job, milliseconds time) {
  for (milliseconds passed{}; passed < time; passed += milliseconds(50)) {
    job.run();
    job.advance(milliseconds(50));
  }
  job.run();
}

negotiation::Negotiator::Options with_tree(bool is_deep, bool gives_stacks = false) {
  negotiation::Negotiator::Options options;
  options.gives_stacks = gives_stacks;
  if (is_deep) options.topology = tree_of(4, 2, 2);
  return options;
}

}  // namespace

TEST_CASE("ranks that wait in different calls of a sequence get a mismatch with all calls") {
  const bool is_deep = GENERATE(false, true);
  CAPTURE(is_deep);
  SimulatedJob job(4, 1, with_tree(is_deep));
  std::vector<negotiation::Token> tokens;
  for (Rank rank = 0; rank < 4; ++rank) {
    for (const char* const common : {"a", "b"}) tokens.push_back(job.submit(rank, in_sequence(common)));
  }
  job.run();
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).ran);
  tokens.clear();
  for (Rank rank = 0; rank < 4; ++rank)
    tokens.push_back(job.submit(rank, in_sequence(rank % 2 == 1 ? "odd" : "even")));
  pass(job, milliseconds(250));
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).completions == 0);
  pass(job, milliseconds(200));
  for (const negotiation::Token token : tokens) {
    CHECK(job.outcome(token).completions == 1);
    CHECK(job.outcome(token).status.code() == Code::mismatch);
    CHECK_THAT(job.outcome(token).status.message(),
               StartsWith("Mismatched calls: ranks 0, 2 wait in 'even' (allreduce"));
    CHECK_THAT(job.outcome(token).status.message(), Contains("; ranks 1, 3 wait in 'odd' (allreduce"));
  }
  // The sequence goes on.
  tokens.clear();
  for (Rank rank = 0; rank < 4; ++rank) tokens.push_back(job.submit(rank, in_sequence("odd")));
  job.run();
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).ran);
  job.check_quiet();
}

TEST_CASE("a mismatch of calls waits for the last rank, however late it is") {
  const milliseconds late = GENERATE(milliseconds(100), milliseconds(900), milliseconds(20'000));
  const Rank last = GENERATE(0, 2);
  CAPTURE(late.count(), last);
  SimulatedJob job(3);
  std::vector<negotiation::Token> tokens;
  for (Rank rank = 0; rank < 3; ++rank) {
    if (rank != last) tokens.push_back(job.submit(rank, in_sequence(rank == 1 ? "x" : "y")));
  }
  pass(job, late);
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).completions == 0);
  tokens.push_back(job.submit(last, in_sequence("x")));
  pass(job, milliseconds(500));
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).status.code() == Code::mismatch);
}

TEST_CASE("calls of other sequences, without one, or whose ranks all come are no mismatch") {
  negotiation::Negotiator::Options options;
  options.static_sets = {{0, 1}};
  SimulatedJob job(2, 1, options);
  std::vector<std::pair<Request, Request>> pairs;
  SECTION("without a sequence") { pairs = {{allreduce("x"), allreduce("y")}}; }
  SECTION("two sequences") { pairs = {{in_sequence("x", 1), in_sequence("y", 2)}}; }
  SECTION("two sets") { pairs = {{in_sequence("x", 1, 1), in_sequence("y", 1, 0)}}; }
  SECTION("one rank has one more") {
    const auto a = job.submit(0, in_sequence("x")), b = job.submit(1, in_sequence("x"));
    job.run();
    CHECK((job.outcome(a).ran && job.outcome(b).ran));
    const auto alone = job.submit(0, in_sequence("y"));
    pass(job, milliseconds(3000));
    CHECK(job.outcome(alone).completions == 0);
    return;
  }
  SECTION("the other order, while all calls come") {
    std::vector<negotiation::Token> tokens;
    for (const char* const name : {"x", "y"}) tokens.push_back(job.submit(0, in_sequence(name)));
    for (const char* const name : {"y", "x"}) tokens.push_back(job.submit(1, in_sequence(name)));
    job.run();
    for (const negotiation::Token token : tokens) CHECK(job.outcome(token).ran);
    return;
  }
  for (const auto& [of_0, of_1] : pairs) {
    const auto a = job.submit(0, of_0), b = job.submit(1, of_1);
    pass(job, milliseconds(3000));
    CHECK((job.outcome(a).completions == 0 && job.outcome(b).completions == 0));
  }
}

TEST_CASE("a mismatch of calls has the places of the calls, as far as ranks know them") {
  const bool answers = GENERATE(false, true);
  SimulatedJob job(2, 1, with_tree(false, true));
  const auto a = job.submit(0, in_sequence("x")), b = job.submit(1, in_sequence("y"));
  pass(job, milliseconds(300));
  job.run();
  CHECK((job.stacks_wanted(0) == 1 && job.stacks_wanted(1) == 1));
  if (answers) job.negotiator(1).give_stack("  train.py:7 in step\n  below it: poll", job.now());
  pass(job, milliseconds(500));
  for (const negotiation::Token token : {a, b}) {
    CHECK(job.outcome(token).status.code() == Code::mismatch);
    if (answers) CHECK_THAT(job.outcome(token).status.message(), Contains("at train.py:7 in step. All"));
    if (!answers) CHECK_THAT(job.outcome(token).status.message(), !Contains(" at "));
  }
}

}  // namespace dabke::test
