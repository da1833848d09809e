// Ranks that wait in different calls of a sequence, in which all ranks must make the same calls.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "runtime/base/pair_sets.h"
#include "runtime/base/text/message_name.h"
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

/// A message that is a part of a call, such as a gather.
Request part_of(const std::string& call, Rank from, Rank to, ProcessSetId set = kWorldSet) {
  Request request = plain(CollectiveKind::send_recv, message_name(call, from, to, 0, set), pair_of(from, to));
  request.tensors = {{request.name, DType::f32, {4}}};
  request.root = from;
  request.call_sequence = 7;
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
  if (answers) job.negotiator(1).give_stack(1, "  train.py:7 in step\n  below it: poll", job.now());
  pass(job, milliseconds(500));
  for (const negotiation::Token token : {a, b}) {
    CHECK(job.outcome(token).status.code() == Code::mismatch);
    if (answers) CHECK_THAT(job.outcome(token).status.message(), Contains("at train.py:7 in step. All"));
    if (!answers) CHECK_THAT(job.outcome(token).status.message(), !Contains(" at "));
  }
}

TEST_CASE("the place that comes too late for one mismatch is not that of the next") {
  SimulatedJob job(2, 1, with_tree(false, true));
  for (const std::uint64_t number : {1, 2}) {
    const auto a = job.submit(0, in_sequence("x")), b = job.submit(1, in_sequence("y"));
    pass(job, milliseconds(350));
    REQUIRE(job.stacks_wanted(1) == static_cast<int>(number));
    if (number == 2) {
      job.negotiator(1).give_stack(1, "train.py:7 in step", job.now());
      job.run();
      CHECK(job.outcome(b).completions == 0);
      job.negotiator(1).give_stack(2, "train.py:9 in step", job.now());
    }
    pass(job, milliseconds(500));
    for (const negotiation::Token token : {a, b}) {
      CHECK(job.outcome(token).status.code() == Code::mismatch);
      if (number == 2)
        CHECK_THAT(job.outcome(token).status.message(), Contains("at train.py:9 in step. All"));
    }
  }
}

TEST_CASE("a call that consists of messages is one call of a sequence") {
  const bool is_deep = GENERATE(false, true);
  CAPTURE(is_deep);
  SimulatedJob job(4, 1, with_tree(is_deep));
  std::vector<negotiation::Token> tokens;
  for (const char* const call : {"gather 0", "gather 1"}) {
    for (Rank rank = 1; rank < 4; ++rank) {
      tokens.push_back(job.submit(rank, part_of(call, rank, 0)));
      tokens.push_back(job.submit(0, part_of(call, rank, 0)));
    }
    for (Rank rank = 0; rank < 4; ++rank) tokens.push_back(job.submit(rank, in_sequence("x")));
  }
  pass(job, milliseconds(3000));
  for (const negotiation::Token token : tokens) CHECK(job.outcome(token).ran);

  // Rank 3 makes another call than the others. The messages of ranks 1 and 2 can run.
  const std::string call = "gather 2";
  std::map<Rank, negotiation::Token> sent, received;
  for (Rank rank = 1; rank < 4; ++rank) {
    if (rank != 3) sent[rank] = job.submit(rank, part_of(call, rank, 0));
    received[rank] = job.submit(0, part_of(call, rank, 0));
  }
  SECTION("which is late") { pass(job, milliseconds(2000)); }
  CHECK(job.outcome(received[3]).completions == 0);
  const auto other = job.submit(3, in_sequence("x"));
  const auto next = job.submit(1, in_sequence("x"));  // its next call waits under the same name
  pass(job, milliseconds(450));
  for (const Rank rank : {1, 2}) CHECK((job.outcome(sent[rank]).ran && job.outcome(received[rank]).ran));
  for (const negotiation::Token token : {received[3], other, next}) {
    CHECK(job.outcome(token).status.code() == Code::mismatch);
    CHECK_THAT(job.outcome(token).status.message(), StartsWith("Mismatched calls: rank 0 "));
    CHECK_THAT(job.outcome(token).status.message(), Contains("waits in 'gather 2' (send/recv"));
    CHECK_THAT(job.outcome(token).status.message(), Contains("waits in 'x' (allreduce"));
  }
}

TEST_CASE("a message of a call whose other end comes late is no mismatch") {
  negotiation::Negotiator::Options options;
  options.static_sets = {{0, 1, 2}};
  SimulatedJob job(4, 1, options);
  const auto first = job.submit(0, part_of("gather", 1, 0, 1)),
             last = job.submit(0, part_of("gather", 2, 0, 1));
  const auto sent = job.submit(1, part_of("gather", 1, 0, 1));
  pass(job, milliseconds(3000));
  CHECK((job.outcome(first).ran && job.outcome(sent).ran && job.outcome(last).completions == 0));
  const auto late = job.submit(2, part_of("gather", 2, 0, 1));
  job.run();
  CHECK((job.outcome(late).ran && job.outcome(last).ran));
}

}  // namespace dabke::test
