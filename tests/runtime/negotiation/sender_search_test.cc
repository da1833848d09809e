// Receives from any rank.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "runtime/base/pair_sets.h"
#include "runtime/base/text/message_name.h"
#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {
namespace {

using Catch::Contains;
using negotiation::Token;

Request message(Rank from, Rank to, std::int64_t tag = 0, std::int64_t elements = 4) {
  Request request = plain(CollectiveKind::send_recv, message_name("x", from, to, tag, kWorldSet));
  request.tensors.push_back({request.name, DType::f32, Shape({elements})});
  request.root = from;
  if (from != kAnyRank) request.process_set = pair_of(from, to);
  return request;
}
Request from_any(Rank to, std::int64_t tag = 0) { return message(kAnyRank, to, tag); }

negotiation::Negotiator::Options in_tree(bool is_deep) {
  negotiation::Negotiator::Options options;
  if (is_deep) options.topology = tree_of(6, 2, 2);
  return options;
}

/// The senders of the messages that the rank has executed, in order.
std::vector<std::string> received(const SimulatedJob& job, Rank rank) {
  std::vector<std::string> all;
  for (const std::string& one : job.executed(rank)) all.push_back(one.substr(one.find(':') + 1));
  return all;
}

}  // namespace

TEST_CASE("a receive from any rank gets the message that is there, or the first that comes") {
  const bool is_deep = GENERATE(false, true);
  const bool sends_first = GENERATE(false, true);
  const Rank receiver = GENERATE(0, 1, 5);
  const Rank sender = GENERATE(0, 3, 4);
  if (receiver == sender) return;
  CAPTURE(is_deep, sends_first, receiver, sender);
  SimulatedJob job(6, 1, in_tree(is_deep));
  Token send{}, receive{};
  if (sends_first) send = job.submit(sender, message(sender, receiver));
  job.run();
  receive = job.submit(receiver, from_any(receiver));
  job.run();
  if (!sends_first) {
    CHECK(job.outcome(receive).completions == 0);
    send = job.submit(sender, message(sender, receiver));
    job.run();
  }
  CHECK((job.outcome(send).ran && job.outcome(receive).ran));
  CHECK(received(job, receiver) == std::vector<std::string>{fmt::format("x [{} to {}]", sender, receiver)});
  job.check_quiet();
}

TEST_CASE("receives from any rank take each message once, beside ordinary receives, in every interleaving") {
  const unsigned seed = GENERATE(range(0U, 300U));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const bool is_deep = random() % 2 == 0;
  SimulatedJob job(6, seed, in_tree(is_deep));
  const Rank receiver = static_cast<Rank>(random() % 6);
  std::vector<Rank> senders;
  for (Rank rank = 0; rank < 6; ++rank) {
    if (rank != receiver && random() % 2 == 0) senders.push_back(rank);
  }
  if (senders.empty()) senders.push_back((receiver + 1) % 6);
  // Each message is received once: the first ones of a sender by its name, the others from any rank. The
  // ordinary receives come first, so that they cannot be left over.
  std::vector<std::pair<Rank, Request>> sends, receives, any_receives;
  for (const Rank sender : senders) {
    const auto count = 1 + random() % 4;
    const auto named = random() % (count + 1);
    for (unsigned i = 0; i < count; ++i) {
      sends.emplace_back(sender, message(sender, receiver));
      if (i < named) {
        receives.emplace_back(receiver, message(sender, receiver));
      } else {
        any_receives.emplace_back(receiver, from_any(receiver));
      }
    }
  }
  std::ranges::shuffle(receives, random);
  receives.insert(receives.end(), any_receives.begin(), any_receives.end());
  std::vector<Token> tokens;
  std::size_t sent = 0, asked = 0;
  while (sent < sends.size() || asked < receives.size()) {
    const bool is_send = sent < sends.size() && (asked == receives.size() || random() % 2 == 0);
    const auto& [rank, request] = is_send ? sends[sent++] : receives[asked++];
    tokens.push_back(job.submit(rank, request));
    for (unsigned steps = random() % 12; steps > 0; --steps) job.step();
  }
  job.run();
  for (const Token token : tokens) {
    CHECK(job.outcome(token).completions == 1);
    CHECK(job.outcome(token).ran);
  }
  CHECK(received(job, receiver).size() == sends.size());
  job.check_quiet();
}

TEST_CASE("tags and process sets of receives from any rank are kept apart") {
  SimulatedJob job(3);
  const Token of_5 = job.submit(0, from_any(0, 5)), of_7 = job.submit(0, from_any(0, 7));
  job.run();
  const Token send = job.submit(2, message(2, 0, 7));
  job.run();
  CHECK(job.outcome(of_5).completions == 0);
  CHECK((job.outcome(of_7).ran && job.outcome(send).ran));
}

TEST_CASE("a receive from any rank that does not fit the message is a mismatch on both ranks") {
  SimulatedJob job(3);
  const Token receive = job.submit(1, from_any(1)), send = job.submit(2, message(2, 1, 0, 5));
  job.run();
  CHECK(job.outcome(receive).status.code() == Code::mismatch);
  CHECK(job.outcome(send).status.code() == Code::mismatch);
}

TEST_CASE(
    "a receive from any rank to which nobody sends is reported, also on rank 0, and fails with the job") {
  const Rank receiver = GENERATE(0, 1);
  negotiation::Negotiator::Options options;
  options.stall_check = std::chrono::seconds(20);
  SimulatedJob job(3, 1, options);
  const Token receive = job.submit(receiver, from_any(receiver));
  job.run();
  job.advance(std::chrono::seconds(21));
  job.run();
  REQUIRE(job.warnings().size() == 1);
  CHECK_THAT(job.warnings()[0], Contains(fmt::format("waits in 'x [any to {}]' (send/recv from any rank of "
                                                     "float32 [4])",
                                                     receiver)));
  job.kill(2);
  job.run();
  CHECK(job.outcome(receive).status.code() == Code::peer_lost);
}

TEST_CASE("a receive from any rank ends when its process set is removed, or the other ranks leave") {
  SimulatedJob job(2);
  const Token receive = job.submit(0, from_any(0));
  job.run();
  job.negotiator(1).leave(job.now());
  job.advance(std::chrono::milliseconds(1));
  job.run();
  CHECK(job.outcome(receive).completions == 1);
  CHECK(job.outcome(receive).status.code() == Code::shut_down);
}

}  // namespace dabke::test
