#include "launcher/examination/exchange.h"

#include <sys/socket.h>

#include <chrono>

#include <catch2/catch.hpp>

#include "launcher/agent_protocol/dialling.h"
#include "runtime/links/address_trials.h"
#include "runtime/links/tcp_link.h"

namespace dabke::test {
using namespace launcher;
namespace {

using Catch::Matchers::Contains;

links::Handshake::Self self_of(Rank number, char key_digit = '2') {
  return *dialling_self(std::string(32, '1'), std::string(64, key_digit), number);
}

links::SocketAddress loopback() { return *links::SocketAddress::of_host("127.0.0.1"); }

std::unique_ptr<ExchangeListener> open_listener(Rank number) {
  const links::SocketAddress at = loopback();
  auto listener = ExchangeListener::open(self_of(number), std::span(&at, 1));
  REQUIRE(listener.is_ok());
  REQUIRE((*listener)->addresses().size() == 1);
  return listener.take();
}

MeasureMessage order_for(const std::string& address, std::int64_t wait_limit_ms = 20'000) {
  return {.number = 2, .address = address, .wait_limit_ms = wait_limit_ms, .duration_ms = 50};
}

}  // namespace

TEST_CASE("an exchange tells how long a byte takes there and back, and how many arrive, also again") {
  const auto listener = open_listener(2);
  for (int turn = 0; turn < 2; ++turn) {
    const MeasuredMessage measured = measure(self_of(1), order_for(listener->addresses()[0]));
    CHECK(measured.trouble.empty());
    CHECK(measured.round_trip_ns > 0);
    CHECK(measured.bytes_per_s > 0);
  }
}

TEST_CASE("an exchange whose time is over before it has sent anything still measures") {
  const auto listener = open_listener(2);
  MeasureMessage order = order_for(listener->addresses()[0]);
  order.duration_ms = 0;
  const MeasuredMessage measured = measure(self_of(1), order);
  CHECK(measured.trouble.empty());
  CHECK(measured.bytes_per_s > 0);
}

TEST_CASE("the listener of exchanges answers who tries this host's addresses, as jobs do") {
  const auto listener = open_listener(2);
  links::Trial trial{.rank = 2, .address = *links::SocketAddress::parse(listener->addresses()[0])};
  REQUIRE(links::try_addresses(self_of(1), std::span(&trial, 1), Clock::now() + std::chrono::seconds(20))
              .is_ok());
  CHECK(trial.outcome == links::Trial::Outcome::reached);
}

TEST_CASE("who has another key, or is another host, exchanges nothing") {
  const auto listener = open_listener(2);
  const MeasuredMessage stranger = measure(self_of(1, '3'), order_for(listener->addresses()[0]));
  CHECK_FALSE(stranger.trouble.empty());
  CHECK(stranger.bytes_per_s == 0);
  const auto other = open_listener(3);
  CHECK_FALSE(measure(self_of(1), order_for(other->addresses()[0])).trouble.empty());
}

TEST_CASE("a host that takes the connection and says nothing, or is not there, ends an exchange in time") {
  auto listener = links::tcp_listen(loopback());
  REQUIRE(listener.is_ok());
  const std::string address = links::SocketAddress::local_of(listener->get())->to_string();
  CHECK_THAT(measure(self_of(1), order_for(address, 6000)).trouble,
             Contains("the other side's proof did not arrive in time"));
  *listener = Fd();
  CHECK_THAT(measure(self_of(1), order_for(address)).trouble, Contains("refused"));
}

}  // namespace dabke::test
