#include "runtime/transport/network.h"

#include <catch2/catch.hpp>

#include "tests/runtime/transport/ranks.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;

TEST_CASE("addresses are written as they are read") {
  for (const std::string text : {"127.0.0.1:4711", "10.1.2.3:0", "[::1]:65535", "[fd00::2]:80"}) {
    const auto address = SocketAddress::parse(text);
    REQUIRE(address.is_ok());
    CHECK(address->to_string() == text);
  }
  CHECK(SocketAddress::parse("127.3.2.1:1")->is_loopback());
  CHECK(SocketAddress::parse("[::1]:1")->is_loopback());
  CHECK_FALSE(SocketAddress::parse("10.0.0.1:1")->is_loopback());
  CHECK(SocketAddress::parse("10.0.0.1:1")->with_port(7).to_string() == "10.0.0.1:7");
  for (const std::string text :
       {"", "1.2.3.4", "1.2.3:1", "::1:80", "[::1]", "1.2.3.4:x", "1.2.3.4:70000", "host:80", "[]:1"}) {
    CHECK_THAT(SocketAddress::parse(text).status().message(), Contains("'" + text + "'"));
  }
}

TEST_CASE("ranks of one host meet on loopback") {
  const auto address = choose_address({}, world_of(0, 2), "file:/shared");
  REQUIRE(address.is_ok());
  CHECK(address->is_loopback());
}

TEST_CASE("an interface is chosen by name, and the error lists those that there are") {
  Config config;
  config.network_interface = "nosuch0,lo";
  REQUIRE(choose_address(config, world_of(0, 2), "memory").is_ok());
  CHECK(choose_address(config, world_of(0, 2), "memory")->to_string() == "127.0.0.1:0");
  config.network_interface = "nosuch0";
  CHECK_THAT(choose_address(config, world_of(0, 2), "memory").status().message(),
             Contains("DABKE_NETWORK_INTERFACE") && Contains("'nosuch0'") && Contains("lo (127.0.0.1"));
}

TEST_CASE("ranks of several hosts never listen on loopback unless told to") {
  auto world = world_of(0, 2);
  world.hosts[1] = "host-b";
  for (const std::string rendezvous :
       {"http://127.0.0.1:4711", "http://[::1]:4711", "http://192.0.2.7:80/x", "file:/shared", "memory"}) {
    const auto address = choose_address({}, world, rendezvous);
    if (address.is_ok()) {
      CHECK_FALSE(address->is_loopback());
    } else {
      CHECK_THAT(address.status().message(),
                 Contains("DABKE_NETWORK_INTERFACE") && Contains("lo (127.0.0.1"));
    }
  }
}
