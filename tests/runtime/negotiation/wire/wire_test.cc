#include "runtime/negotiation/wire/wire.h"

#include <catch2/catch.hpp>

#include <random>

namespace dabke::test {
namespace {

Request sample_request() {
  Request request;
  request.name = "layer1.grad";
  request.process_set = 3;
  request.kind = CollectiveKind::reducescatter;
  request.op = ReduceOp::average;
  request.root = 2;
  request.priority = -4;
  request.prescale = 0.5;
  request.tensors = {{"a", DType::bf16, Shape{2, 3}},
                     {"b", DType::bf16, Shape{1, 2, 3, 4, 5, 6, 7}},
                     {"c", DType::b8, Shape{}}};
  request.ranks = {0, 5};
  return request;
}

wire::ReadyMessage ready_with(const Request& request) {
  wire::ReadyMessage message;
  message.seen = 1ULL << 33;
  message.slots = {4, 5, 6, 9};
  message.late_rank = 7;
  message.late_us = 1234;
  message.wanted = {2};
  message.awaited = {3, 8};
  const auto shared = std::make_shared<const Request>(request);
  message.reports = {{{{shared, {}}, {shared, {1, 4}}}, 3, true}, {{{shared, {}}}, 1, false}};
  message.joins = {{3, 11, {"t"}}};
  return message;
}

wire::ReadyMessage sample_ready() { return ready_with(sample_request()); }

std::vector<std::byte> bytes_of(const wire::Message& message) {
  std::vector<std::byte> out;
  wire::encode(message, out);
  return out;
}

}  // namespace

TEST_CASE("a message comes back from its bytes as it was") {
  wire::Order order;
  order.number = 1ULL << 40;
  order.request = std::make_shared<const Request>(sample_request());
  order.contributors = 3;
  order.rank = 1;
  order.new_set = 9;
  order.text = "why";
  order.batch = 70000;
  order.batch_by_tensor = {3, 1};
  const auto bytes = bytes_of(wire::OrdersMessage{{order, order}});
  auto decoded = wire::decode(bytes);
  REQUIRE(decoded);
  const auto& orders = std::get<wire::OrdersMessage>(*decoded);
  REQUIRE(orders.orders.size() == 2);
  const wire::Order& back = orders.orders[1];
  CHECK(back.number == order.number);
  CHECK(back.request->tensors == order.request->tensors);
  CHECK(back.request->ranks == order.request->ranks);
  CHECK(difference(*back.request, *order.request).empty());
  CHECK(back.request->priority == -4);
  CHECK(back.new_set == 9);
  CHECK(back.text == "why");
  CHECK(back.batch == 70000);
  CHECK(back.batch_by_tensor == order.batch_by_tensor);
  CHECK(std::holds_alternative<wire::GoodbyeMessage>(*wire::decode(bytes_of(wire::GoodbyeMessage{}))));
  const auto dump = wire::decode(bytes_of(wire::DumpMessage{1ULL << 35, true, "stalled"}));
  CHECK(std::get<wire::DumpMessage>(*dump).incident == 1ULL << 35);
  CHECK(std::get<wire::DumpMessage>(*dump).asked);
  CHECK(std::get<wire::DumpMessage>(*dump).reason == "stalled");
  CHECK(std::get<wire::FailMessage>(*wire::decode(bytes_of(wire::FailMessage{Code::stalled, "late"}))).text ==
        "late");
}

TEST_CASE("a message cut short anywhere is refused") {
  const auto bytes = bytes_of(sample_ready());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK_FALSE(wire::decode(std::span(bytes).first(length)));
  }
  CHECK(wire::decode(bytes));
}

TEST_CASE("a message with bytes too many, an unknown kind or an impossible value is refused") {
  auto bytes = bytes_of(sample_ready());
  bytes.push_back(std::byte{0});
  CHECK_FALSE(wire::decode(bytes));
  CHECK_FALSE(wire::decode(std::vector{std::byte{200}}));
  Request request = sample_request();
  request.kind = static_cast<CollectiveKind>(99);
  CHECK_FALSE(wire::decode(bytes_of(ready_with(request))));
  request = sample_request();
  request.tensors[0].shape = Shape{-1};
  CHECK_FALSE(wire::decode(bytes_of(ready_with(request))));
  request.tensors[0].shape = Shape{1LL << 40, 1LL << 40};
  CHECK_FALSE(wire::decode(bytes_of(ready_with(request))));
}

TEST_CASE("random and mutated bytes never crash the decoder") {
  std::mt19937 random(20240607);
  const auto good = bytes_of(sample_ready());
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = good;
    if (round % 2 == 0) {
      bytes.resize(random() % 200);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    } else {
      for (unsigned i = 0; i < 1 + random() % 4; ++i)
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    refused += !wire::decode(bytes);
  }
  CHECK(refused > 10000);
}

}  // namespace dabke::test
