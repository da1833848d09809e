#include "runtime/bootstrap/address_choice.h"

#include <catch2/catch.hpp>

using namespace dabke;
using Catch::Contains;

namespace {

constexpr auto kReached = links::Trial::Outcome::reached;
constexpr auto kFailed = links::Trial::Outcome::failed;
constexpr auto kNone = links::Trial::Outcome::none;

bootstrap::Candidate at(const char* host, const char* interface, std::vector<bootstrap::Sighting> seen) {
  return {{links::SocketAddress::of_host(host).take(), interface}, std::move(seen)};
}

std::string chosen(const std::vector<bootstrap::HostCandidates>& hosts) {
  const auto found = bootstrap::choose_addresses(hosts);
  if (!found.is_ok()) return found.status().message();
  std::string text;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    text += hosts[i].candidates[(*found)[i]].at.address.host() + " ";
  return text;
}

}  // namespace

TEST_CASE("the likeliest address that all have reached is chosen, and one that leads elsewhere is not") {
  const std::vector<bootstrap::HostCandidates> hosts{
      {"rank 0 on a",
       {at("172.17.0.1", "docker0", {{1, kFailed, "this is rank 1"}}),
        at("10.0.0.1", "eth0", {{1, kReached, ""}}), at("10.1.0.1", "eth1", {{1, kReached, ""}})}},
      {"rank 1 on b",
       {at("172.17.0.1", "docker0", {{0, kFailed, "this is rank 0"}}),
        at("10.0.0.2", "eth0", {{0, kNone, "no answer"}}), at("10.1.0.2", "eth1", {{0, kReached, ""}})}}};
  CHECK(chosen(hosts) == "10.0.0.1 10.1.0.2 ");
  const std::string table = bootstrap::describe_choice(hosts, {1, 2});
  CHECK_THAT(table, Contains("rank 1 on b: 10.1.0.2 (eth1)") &&
                        Contains("not 172.17.0.1 (docker0): from rank 0 on a: this is rank 0"));
}

TEST_CASE("one family is chosen for all, that of the first host's likeliest address where it will do") {
  const auto hosts = [](links::Trial::Outcome v4_of_b) {
    return std::vector<bootstrap::HostCandidates>{
        {"a", {at("10.0.0.1", "eth0", {{1, kReached, ""}}), at("fd00::1", "eth0", {{1, kReached, ""}})}},
        {"b", {at("10.0.0.2", "eth0", {{0, v4_of_b, ""}}), at("fd00::2", "eth0", {{0, kReached, ""}})}}};
  };
  CHECK(chosen(hosts(kReached)) == "10.0.0.1 10.0.0.2 ");
  CHECK(chosen(hosts(kFailed)) == "fd00::1 fd00::2 ");
  const std::vector<bootstrap::HostCandidates> never{{"a", {at("10.0.0.1", "eth0", {{1, kReached, ""}})}},
                                                     {"b", {at("fd00::2", "eth0", {{0, kReached, ""}})}}};
  CHECK_THAT(chosen(never), Contains("neither IPv4 nor IPv6 addresses") && Contains("a: 10.0.0.1 (eth0)") &&
                                Contains("b: fd00::2 (eth0)") && Contains("DABKE_NETWORK_INTERFACE"));
}

TEST_CASE("a host that one of the others reaches nowhere is named, with what was tried and what to do") {
  const std::vector<bootstrap::HostCandidates> hosts{
      {"rank 0 on a", {at("10.0.0.1", "eth0", {{1, kReached, ""}, {2, kReached, ""}})}},
      {"rank 4 on b",
       {at("10.0.0.2", "eth0", {{0, kReached, ""}, {2, kNone, "no answer"}}),
        at("172.17.0.1", "docker0", {{0, kFailed, "x"}, {2, kFailed, "this is rank 8"}})}},
      {"rank 8 on c", {at("10.0.0.3", "eth0", {{0, kReached, ""}})}}};
  CHECK_THAT(chosen(hosts), Contains("rank 4 on b cannot be reached from rank 8 on c") &&
                                Contains("10.0.0.2 (eth0): no answer") &&
                                Contains("172.17.0.1 (docker0): this is rank 8") && Contains("firewalls") &&
                                Contains("DABKE_START_TIMEOUT_SECONDS"));
}

TEST_CASE("an address that most have reached and nobody failed at comes before one that fewer have") {
  const std::vector<bootstrap::HostCandidates> hosts{
      {"a",
       {at("10.0.0.1", "eth0", {{1, kReached, ""}, {2, kNone, "no answer"}}),
        at("10.1.0.1", "eth1", {{1, kReached, ""}, {2, kReached, ""}})}},
      {"b", {at("10.0.0.2", "eth0", {{0, kReached, ""}})}},
      {"c", {at("10.0.0.3", "eth0", {{0, kReached, ""}})}}};
  CHECK(chosen(hosts) == "10.1.0.1 10.0.0.2 10.0.0.3 ");
}
