// A neighbour sends messages that are well-formed, but impossible.
#include "runtime/negotiation/tables/message_check.h"

#include <array>
#include <catch2/catch.hpp>
#include <limits>

#include "runtime/negotiation/negotiator.h"

namespace dabke::test {
namespace {

constexpr TimePoint kNow{std::chrono::hours(1)};
constexpr Rank kRoot = 0, kInner = 3, kLeaf = 4;  // ranks 0 to 2 on one host, 3 and 4 on another

std::shared_ptr<const negotiation::Topology> two_hosts() {
  return std::make_shared<const negotiation::Topology>(5, std::vector<std::string>{"a", "a", "a", "b", "b"},
                                                       1);
}

/// The cause with which the job of `rank` ends after this message of `peer`. Ok: the job goes on.
Status cause_after(Rank rank, Rank peer, const wire::Message& message) {
  negotiation::Negotiator::Options options;
  options.rank = rank;
  options.topology = two_hosts();
  options.stall_check = std::chrono::seconds(1);
  negotiation::Negotiator negotiator(options);
  std::vector<std::byte> bytes;
  wire::encode(message, bytes);
  negotiator.message_from(peer, bytes, kNow);
  for (const negotiation::Action& action : negotiator.take_actions(kNow)) {
    if (const auto* over = std::get_if<negotiation::OverAction>(&action)) return over->cause;
  }
  return {};
}

RequestRef request_of(CollectiveKind kind, std::vector<Rank> ranks, ProcessSetId set = kWorldSet) {
  auto request = std::make_shared<Request>();
  request->kind = kind;
  request->name = std::string("x");
  request->process_set = set;
  request->ranks = std::move(ranks);
  return request;
}

RequestRef scalar_of(CollectiveKind kind) {
  auto request = std::make_shared<Request>(*request_of(kind, {}));
  request->tensors.push_back({"x", DType::f32, Shape()});
  return request;
}

wire::Message order_of(RequestRef request, ProcessSetId new_set = 1, wire::Slot slot = wire::kNoSlot) {
  wire::Order order;
  order.number = 1;
  order.request = std::move(request);
  order.new_set = new_set;
  order.slot = slot;
  return wire::OrdersMessage{{order}};
}

wire::Message departure_of(Rank rank) {
  wire::Order order;
  order.kind = wire::Order::Kind::left;
  order.rank = rank;
  return wire::OrdersMessage{{order}};
}

wire::Message report_of(RequestRef request, std::int32_t contributors = 1) {
  wire::ReadyMessage ready;
  ready.reports.push_back({{{std::move(request), {}}}, contributors, false});
  return ready;
}

}  // namespace

TEST_CASE("orders that cannot be end the job and name who sent them, instead of reading what is not there") {
  using enum CollectiveKind;
  const wire::Message message =
      GENERATE(departure_of(5), departure_of(-1), departure_of(std::numeric_limits<Rank>::max()),
               order_of(request_of(add_process_set, {0, 5})), order_of(request_of(add_process_set, {-1, 0})),
               order_of(request_of(add_process_set, {3, 0})), order_of(request_of(add_process_set, {})),
               order_of(request_of(add_process_set, {0, 3}), 0),
               order_of(request_of(add_process_set, {0, 3}), std::numeric_limits<ProcessSetId>::max()),
               order_of(request_of(remove_process_set, {})), order_of(request_of(remove_process_set, {0})),
               order_of(request_of(remove_process_set, {1}, 1)), order_of(request_of(allreduce, {})),
               order_of(request_of(add_set_among_members, {0, 5})),
               order_of(request_of(add_set_among_members, {0, 3}), -1),
               order_of(request_of(add_set_among_members, {0, 3}, 1)),
               order_of(request_of(remove_set_among_members, {})),
               order_of(request_of(remove_set_among_members, {0, 3}), 0), order_of(request_of(allgather, {})),
               order_of(scalar_of(allgather)), order_of(scalar_of(alltoall)),
               order_of(scalar_of(reducescatter)), order_of(request_of(barrier, {}), -1, 0xfffffffe));
  const Status cause = cause_after(kInner, kRoot, message);
  CHECK(cause.code() == Code::internal);
  INFO(cause.message());
  CHECK(cause.message().starts_with("from rank 0 on a: "));
}

TEST_CASE("reports that cannot be end the job and name who sent them") {
  using enum CollectiveKind;
  wire::ReadyMessage late, wanted, joined;
  late.late_rank = 5;
  wanted.wanted = {0xfffffffe};
  joined.joins.push_back({kWorldSet, 5, {}, {}});
  wire::ReadyMessage nobody_joined, not_served, without_host;
  nobody_joined.joins.push_back({kWorldSet, -1, {}, {}});
  not_served.joins.push_back({kWorldSet, -1, {}, {{DeviceType::cuda, 5}}});
  without_host.joins.push_back({kWorldSet, 3, {}, {{DeviceType::host, 3}}});
  wire::ReadyMessage joined_rank;
  joined_rank.reports.push_back({{{request_of(barrier, {}), {}}}, 1, false, {5}});
  constexpr std::uint64_t kForEver = std::numeric_limits<std::uint64_t>::max() / 2;
  const wire::Message message = GENERATE_COPY(
      wire::Message(late), wire::Message(wanted), wire::Message(joined), wire::Message(nobody_joined),
      wire::Message(not_served), wire::Message(without_host), report_of(request_of(barrier, {}), 6),
      report_of(request_of(barrier, {}), -1), report_of(request_of(join, {})),
      report_of(request_of(add_process_set, {5})), report_of(request_of(remove_process_set, {})),
      report_of(request_of(add_set_among_members, {3, 5})), wire::Message(joined_rank),
      wire::Message(wire::GoodbyeMessage{5}), wire::Message(wire::GoodbyeMessage{-1}),
      wire::Message(wire::GoodbyeMessage{1}), wire::Message(wire::AnswerMessage{.rank = 5}),
      wire::Message(wire::AnswerMessage{.rank = 4, .idle_ms = kForEver}),
      wire::Message(wire::NoticeMessage{.name = "x", .age_ms = kForEver}),
      wire::Message(wire::GroupNoticeMessage{.group = "g", .age_ms = kForEver}),
      wire::Message(wire::GroupAnswerMessage{.rank = 4, .age_ms = kForEver}),
      wire::Message(wire::SequenceAnswerMessage{.rank = 5}),
      wire::Message(wire::SenderQuestionMessage{.receiver = 5, .name = "x [any to 5]"}),
      wire::Message(wire::SenderQuestionMessage{.receiver = 1, .name = "x [0 to 1]"}),
      wire::Message(wire::SenderAnswerMessage{.receiver = 1, .sender = 1, .name = "x [any to 1]"}),
      wire::Message(wire::SenderAnswerMessage{.receiver = 1, .sender = 5, .name = "x [any to 1]"}));
  const Status cause = cause_after(kRoot, kInner, message);
  CHECK(cause.code() == Code::internal);
  INFO(cause.message());
  CHECK(cause.message().starts_with("from rank 3 on b: "));
}

TEST_CASE(
    "an order of what this rank's subtree has not reported ends the job while the name still queues here") {
  negotiation::Negotiator negotiator({.rank = kInner, .topology = two_hosts()});
  auto request = std::make_shared<Request>(*request_of(CollectiveKind::allreduce, {}));
  request->tensors.push_back({"x", DType::f32, Shape({4})});
  negotiator.submit(negotiation::Token{1}, request, kNow);
  negotiator.submit(negotiation::Token{2}, request, kNow);  // queued behind the first
  std::vector<std::byte> bytes;
  wire::encode(order_of(request), bytes);
  negotiator.message_from(kRoot, bytes, kNow);
  int over = 0, completed = 0;
  for (const negotiation::Action& action : negotiator.take_actions(kNow)) {
    if (std::holds_alternative<negotiation::OverAction>(action)) ++over;
    if (const auto* done = std::get_if<negotiation::CompleteAction>(&action))
      completed += static_cast<int>(done->token);
  }
  CHECK(over == 1);
  CHECK(completed == 2);  // only the second; the first is a part of the run
  CHECK(negotiator.cause().code() == Code::internal);
}

TEST_CASE("a dozen bytes do not stand for more cached orders than the largest cache has slots") {
  // Orders: a run of cached ones from order 1 and slot 0 on, 2^20 of them or one
  // more, all of batch 0. Then the end.
  const auto decoded = [](std::uint8_t low) {
    const std::array<std::uint8_t, 9> bytes{3, 0, 1, 0, low, 0x80, 0x40, 0, 2};
    return wire::decode(std::as_bytes(std::span(bytes)));
  };
  CHECK(decoded(0x80).is_ok());
  REQUIRE_FALSE(decoded(0x81).is_ok());
  CHECK_THAT(decoded(0x81).status().message(), Catch::Contains("too many cached orders"));
}

TEST_CASE("the late rank of a report is read as it was written, whatever it is") {
  for (const Rank rank : {std::numeric_limits<Rank>::min(), -1, 0, std::numeric_limits<Rank>::max()}) {
    wire::ReadyMessage ready;
    ready.late_rank = rank;
    std::vector<std::byte> bytes;
    wire::encode(ready, bytes);
    const auto decoded = wire::decode(bytes);
    REQUIRE(decoded.is_ok());
    CHECK(std::get<wire::ReadyMessage>(*decoded).late_rank == rank);
  }
}

TEST_CASE("a batch that begins after the question has come is told as one that runs for no time at all") {
  negotiation::Negotiator negotiator({.rank = kInner, .topology = two_hosts(), .gives_stacks = true});
  std::vector<std::byte> bytes;
  wire::encode(wire::InquiryMessage{.id = 1, .name = "x"}, bytes);
  negotiator.message_from(kRoot, bytes, kNow);
  negotiator.note_running({7, kWorldSet, "allreduce 'y'", kNow + std::chrono::seconds(2)}, kNow);
  negotiator.give_stack(1, "at work", kNow);
  std::uint64_t inside_ms = 1;
  Status taken(Code::internal, "no answer was sent");
  for (const negotiation::Action& action : negotiator.take_actions(kNow)) {
    const auto* sent = std::get_if<negotiation::SendAction>(&action);
    if (sent == nullptr || sent->peer != kRoot) continue;
    const auto answer = wire::decode(*sent->message);
    REQUIRE(answer.is_ok());
    inside_ms = std::get<wire::AnswerMessage>(*answer).inside_ms;
    taken = cause_after(kRoot, kInner, *answer);
  }
  CHECK(inside_ms == 0);
  CHECK(taken.is_ok());
}

TEST_CASE("what ranks of this job say of themselves and of those below them is no mistake") {
  using enum CollectiveKind;
  CHECK(cause_after(kInner, kRoot, order_of(request_of(add_process_set, {0, 4}))).is_ok());
  CHECK(cause_after(kInner, kRoot, departure_of(1)).is_ok());
  CHECK(cause_after(kRoot, kInner, wire::GoodbyeMessage{kLeaf}).is_ok());
  CHECK(cause_after(kRoot, kInner, report_of(request_of(barrier, {}), 2)).is_ok());
  CHECK(cause_after(kRoot, kInner, wire::AnswerMessage{.rank = kLeaf, .idle_ms = 86'400'000}).is_ok());
}

}  // namespace dabke::test
