#include "runtime/links/interfaces.h"

#include <catch2/catch.hpp>

#include "tests/runtime/links/ranks.h"

using namespace dabke;
using Catch::Contains;

namespace {

std::vector<links::Interface> some_interfaces() {
  const auto at = [](const char* host) { return links::SocketAddress::of_host(host).take(); };
  return {{"lo", {at("127.0.0.1"), at("::1")}},
          {"eth0", {at("10.0.3.2"), at("fd00::2")}},
          {"eth1", {at("10.1.255.7")}},
          {"docker0", {at("172.17.0.1")}},
          {"down0", {}}};
}

std::string selected(std::string_view selection) {
  const auto found = links::selected_addresses(some_interfaces(), selection);
  if (!found.is_ok()) return found.status().message();
  std::string text;
  for (const links::HostAddress& each : *found) text += each.address.host() + "@" + each.interface + " ";
  return text;
}

}  // namespace

TEST_CASE("interfaces, addresses and networks select addresses, in the order in which they are named") {
  CHECK(selected("eth1,eth0") == "10.1.255.7@eth1 10.0.3.2@eth0 fd00::2@eth0 ");
  CHECK(selected("172.17.0.1") == "172.17.0.1@docker0 ");
  CHECK(selected("10.0.0.0/8") == "10.0.3.2@eth0 10.1.255.7@eth1 ");
  CHECK(selected("10.1.0.0/16,10.0.0.0/8") == "10.1.255.7@eth1 10.0.3.2@eth0 ");
  CHECK(selected("10.0.2.0/23") == "10.0.3.2@eth0 ");
  CHECK(selected("fd00::/64") == "fd00::2@eth0 ");
  CHECK(selected("nosuch0,10.9.0.0/16,lo") == "127.0.0.1@lo ::1@lo ");
  CHECK(selected("0.0.0.0/0") == "127.0.0.1@lo 10.0.3.2@eth0 10.1.255.7@eth1 172.17.0.1@docker0 ");
}

TEST_CASE("interfaces are selected as for NCCL: by what their names begin with, exactly, or all but some") {
  CHECK(selected("eth") == "10.0.3.2@eth0 fd00::2@eth0 10.1.255.7@eth1 ");
  CHECK(selected("docker, lo") == "172.17.0.1@docker0 127.0.0.1@lo ::1@lo ");
  CHECK(selected("=eth0") == "10.0.3.2@eth0 fd00::2@eth0 ");
  CHECK(selected("^lo,docker") == "10.0.3.2@eth0 fd00::2@eth0 10.1.255.7@eth1 ");
  CHECK(selected("^eth") == "127.0.0.1@lo ::1@lo 172.17.0.1@docker0 ");
  CHECK(selected("^=eth,=eth1,lo,docker0") == "10.0.3.2@eth0 fd00::2@eth0 ");
  CHECK(selected("^172.16.0.0/12,lo,fd00::2") == "10.0.3.2@eth0 10.1.255.7@eth1 ");
  CHECK_THAT(selected("=eth"), Contains("this host has no '=eth' that is up"));
  CHECK_THAT(selected("^lo,eth,docker"), Contains("this host has no '^lo,eth,docker' that is up"));
  CHECK_THAT(selected("eth0,^lo"), Contains("'^lo': put ^ once, before the whole list, as in ^lo,docker"));
}

TEST_CASE("what the host's own name resolves to, such as 127.0.1.1, is advertised to nobody") {
  const auto interfaces = links::list_interfaces();
  const auto candidates = links::candidate_addresses({}, "http://localhost:4711");
  REQUIRE((interfaces.is_ok() && candidates.is_ok()));
  for (const links::HostAddress& each : *candidates) {
    const auto has_it = [&](const links::Interface& one) {
      return one.name == each.interface &&
             std::ranges::any_of(one.addresses, [&](const links::SocketAddress& address) {
               return address.host() == each.address.host();
             });
    };
    CHECK(std::ranges::any_of(*interfaces, has_it));
  }
  CHECK(links::SocketAddress::of_host("127.0.1.1")->is_loopback());  // it goes last if an interface has it
}

TEST_CASE("a selection that this host lacks, or that makes no sense, is an error that says what there is") {
  for (const std::string selection : {"nosuch0", "10.9.0.0/16", "10.0.3.3", "down0"}) {
    CHECK_THAT(selected(selection), Contains("DABKE_NETWORK_INTERFACE") && Contains("'" + selection + "'") &&
                                        Contains("lo (127.0.0.1, ::1), eth0 (10.0.3.2, fd00::2)") &&
                                        Contains("down0 (no usable address)"));
  }
  for (const std::string network : {"10.0.0.0/33", "eth0/8", "fd00::/129", "10.0.0.0/", "10.0.0.0/x", "/8"})
    CHECK_THAT(selected("eth0," + network),
               Contains("'" + network + "' is not a network such as 10.1.0.0/16"));
}

TEST_CASE("ranks of one host meet on loopback, unless an interface is named") {
  CHECK(links::address_on_one_host({})->is_loopback());
  Config config;
  config.network_interface = "nosuch0,lo";
  CHECK(links::address_on_one_host(config)->to_string() == "127.0.0.1:0");
  config.network_interface = "nosuch0";
  CHECK_THAT(links::address_on_one_host(config).status().message(),
             Contains("'nosuch0'") && Contains("lo (127.0.0.1"));
}

TEST_CASE("loopback is the least likely of what a host may be reached at, and there once an address") {
  const auto candidates = links::candidate_addresses({}, "http://127.0.0.1:4711");
  REQUIRE(candidates.is_ok());
  bool loopback_has_come = false;
  std::vector<std::string> hosts;
  for (const links::HostAddress& each : *candidates) {
    CHECK((each.address.is_loopback() || !loopback_has_come));
    loopback_has_come = loopback_has_come || each.address.is_loopback();
    CHECK(std::ranges::find(hosts, each.address.host()) == hosts.end());
    hosts.push_back(each.address.host());
  }
  CHECK(loopback_has_come);
}
