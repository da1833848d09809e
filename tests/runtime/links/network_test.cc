#include "runtime/links/network.h"

#include <catch2/catch.hpp>

#include "tests/runtime/links/ranks.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;

TEST_CASE("addresses are written as they are read") {
  for (const std::string text : {"127.0.0.1:4711", "10.1.2.3:0", "[::1]:65535", "[fd00::2]:80"}) {
    const auto address = links::SocketAddress::parse(text);
    REQUIRE(address.is_ok());
    CHECK(address->to_string() == text);
  }
  CHECK(links::SocketAddress::parse("127.3.2.1:1")->is_loopback());
  CHECK(links::SocketAddress::parse("[::1]:1")->is_loopback());
  CHECK_FALSE(links::SocketAddress::parse("10.0.0.1:1")->is_loopback());
  CHECK(links::SocketAddress::parse("10.0.0.1:1")->with_port(7).to_string() == "10.0.0.1:7");
  for (const std::string text :
       {"", "1.2.3.4", "1.2.3:1", "::1:80", "[::1]", "1.2.3.4:x", "1.2.3.4:70000", "host:80", "[]:1"}) {
    CHECK_THAT(links::SocketAddress::parse(text).status().message(), Contains("'" + text + "'"));
  }
}

TEST_CASE("a rank listens where its world says, and on loopback where it says nothing") {
  World world = world_of(0, 2);
  CHECK(links::listening_address(world)->to_string() == "127.0.0.1:0");
  world.address = "fd00::2";
  CHECK(links::listening_address(world)->to_string() == "[fd00::2]:0");
  world.address = "10.0.0.2";
  CHECK(links::listening_address(world)->to_string() == "10.0.0.2:0");
}
