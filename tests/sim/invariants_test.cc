#include "tests/sim/invariants.h"

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using Catch::Contains;
using negotiation::ExecuteAction;
using negotiation::OrderedRequest;
using negotiation::Token;

RequestRef request_of(const std::string& name, std::int64_t elements = 4, ProcessSetId set = kWorldSet) {
  Request request;
  request.name = name;
  request.process_set = set;
  request.tensors = {{name, DType::f32, Shape{elements}}};
  return std::make_shared<const Request>(std::move(request));
}

OrderedRequest order_of(std::uint64_t number, const RequestRef& request) {
  return {number, Token::none, request, request, 3};
}

/// An action of these orders, of one tensor each. Each order comes with the number of its batch.
ExecuteAction action_of(const std::vector<std::pair<OrderedRequest, std::uint32_t>>& orders) {
  ExecuteAction action;
  for (const auto& [ordered, batch] : orders) {
    action.tensors.push_back({batch, static_cast<std::uint32_t>(action.requests.size()), 0});
    action.requests.push_back(ordered);
  }
  return action;
}

Invariants of_three_ranks() {
  return {3, negotiation::ProcessSets(std::make_shared<const std::vector<Rank>>(std::vector<Rank>{0, 1, 2}))};
}

}  // namespace

TEST_CASE("a simulation notices an order that is something else on another rank") {
  Invariants invariants = of_three_ranks();
  invariants.execute(0, action_of({{order_of(1, request_of("x")), 0}}));
  invariants.execute(1, action_of({{order_of(1, request_of("x")), 0}}));
  CHECK_THROWS_WITH(invariants.execute(2, action_of({{order_of(1, request_of("y")), 0}})),
                    Contains("order 1 is 'x' of set 0 from 3 ranks here, and 'y'"));
  OrderedRequest of_two = order_of(2, request_of("x"));
  invariants.execute(0, action_of({{of_two, 0}}));
  of_two.contributors = 2;
  CHECK_THROWS_AS(invariants.execute(1, action_of({{of_two, 0}})), Violation);
}

TEST_CASE("a simulation notices an order that is not what the rank submitted") {
  Invariants invariants = of_three_ranks();
  OrderedRequest ordered = order_of(1, request_of("x"));
  ordered.token = invariants.tokens().add(0, request_of("x"));
  ordered.request = request_of("x", 5);
  CHECK_THROWS_WITH(invariants.execute(0, action_of({{ordered, 0}})),
                    Contains("another signature than it submitted"));
}

TEST_CASE("a simulation notices announced changes that differ between ranks, and those that are taken back") {
  Invariants invariants = of_three_ranks();
  OrderedRequest ordered = order_of(1, request_of("x"));
  ordered.changes = 2;
  invariants.execute(0, action_of({{ordered, 0}}));
  ordered.changes = 1;
  CHECK_THROWS_WITH(invariants.execute(1, action_of({{ordered, 0}})),
                    Contains("order 1 carries 1 changes on rank 1, 2 elsewhere"));
  ordered = order_of(2, request_of("x"));
  ordered.changes = 1;
  CHECK_THROWS_WITH(invariants.execute(0, action_of({{ordered, 0}})), Contains("after one with 2"));
}

TEST_CASE("a simulation notices numbers that do not go up") {
  Invariants invariants = of_three_ranks();
  invariants.execute(0, action_of({{order_of(2, request_of("x")), 0}}));
  CHECK(invariants.last_number(0) == 2);
  CHECK_THROWS_WITH(invariants.execute(0, action_of({{order_of(2, request_of("x")), 0}})),
                    Contains("rank 0 executes order 2 after 2"));
}

TEST_CASE("a simulation notices an order of a process set that the rank is not in, or no longer") {
  Invariants invariants = of_three_ranks();
  const ExecuteAction in_set = action_of({{order_of(1, request_of("x", 4, 1)), 0}});
  CHECK_THROWS_AS(invariants.execute(0, in_set), Violation);
  for (Rank rank = 0; rank < 3; ++rank) invariants.change_set(rank, {1, {0, 1}});
  CHECK_THROWS_AS(invariants.execute(2, in_set), Violation);
  CHECK_NOTHROW(invariants.execute(1, in_set));
  invariants.change_set(1, {1, {}});
  CHECK_THROWS_AS(invariants.execute(1, action_of({{order_of(2, request_of("x", 4, 1)), 0}})), Violation);
}

TEST_CASE("a simulation notices a process set of other ranks than elsewhere") {
  Invariants invariants = of_three_ranks();
  invariants.change_set(0, {1, {0, 1}});
  CHECK_THROWS_WITH(invariants.change_set(1, {1, {1, 2}}),
                    Contains("process set 1 has other ranks on rank 1"));
}

TEST_CASE("a simulation notices batches that differ between ranks, run late, or leave tensors out") {
  Invariants invariants = of_three_ranks();
  const OrderedRequest first = order_of(1, request_of("x"));
  const OrderedRequest second = order_of(2, request_of("y"));
  invariants.execute(0, action_of({{first, 0}, {second, 0}}));
  CHECK_THROWS_WITH(invariants.execute(1, action_of({{first, 0}, {second, 1}})),
                    Contains("the batch of order 1 has 1 tensors on rank 1, and 2 on another rank"));
  Invariants others = of_three_ranks();
  ExecuteAction late = action_of({{first, 0}, {second, 1}});
  std::swap(late.tensors[0], late.tensors[1]);
  CHECK_THROWS_WITH(others.execute(0, late), Contains("runs the batch of order 1 late"));
  ExecuteAction without = action_of({{order_of(3, request_of("x")), 0}});
  without.tensors.clear();
  CHECK_THROWS_WITH(others.execute(0, without), Contains("runs 0 tensors of 1"));
}

TEST_CASE("a simulation notices a token that completes twice, or on another rank") {
  PendingTokens tokens(2);
  const Token token = tokens.add(0, request_of("x"));
  CHECK(tokens.count() == 1);
  CHECK_THROWS_AS(tokens.complete(1, token), Violation);
  tokens.complete(0, token);
  CHECK_THROWS_AS(tokens.complete(0, token), Violation);
  const Token next = tokens.add(0, request_of("y"));
  CHECK(next != token);
  CHECK(tokens.any(0)->name == "y");
  tokens.drop(0);
  CHECK(tokens.count() == 0);
  CHECK(tokens.any(0) == nullptr);
}

}  // namespace dabke::test
