#include "launcher/doctor/findings.h"

#include <algorithm>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

constexpr std::int64_t kGigabyte = std::int64_t{1} << 30;

HostReport good_host(const std::string& name) {
  HostReport host{.host = {name, 2}};
  host.machine = "machine-of-" + name;
  host.clock = ClockSkew{1000, 2000};
  host.facts = ExaminedMessage{.host_name = name,
                               .usable_units = 4,
                               .all_units = 8,
                               .quota_thousandths = 2500,
                               .memory = 16 * kGigabyte,
                               .free_memory = 8 * kGigabyte,
                               .shm = 8 * kGigabyte,
                               .free_shm = 4 * kGigabyte,
                               .is_shm_writable = true,
                               .open_files = 1024,
                               .processes = INT64_MAX,
                               .locked_memory = INT64_MAX,
                               .first_port = 32768,
                               .last_port = 60999,
                               .addresses = {"10.0.0.1:4000"},
                               .troubles = {}};
  return host;
}

RouteReport route(std::size_t from, std::size_t to, std::int64_t bytes_per_s) {
  return {.from = from,
          .to = to,
          .address = "10.0.0.1:4000",
          .round_trip_ns = 50'000,
          .bytes_per_s = bytes_per_s};
}

std::vector<std::string> said(const CheckupReport& report) {
  std::vector<std::string> lines;
  for (const Finding& finding : findings_of(report))
    lines.push_back((finding.is_wrong ? "wrong: " : "note: ") + finding.what);
  return lines;
}

/// The one finding about a good host after `change`.
template <class Change>
std::string said_of(Change change) {
  HostReport host = good_host("a");
  change(host, *host.facts);
  const auto lines = said({.hosts = {host}, .routes = {}});
  REQUIRE(lines.size() == 1);
  return lines[0];
}

}  // namespace

TEST_CASE("of hosts that are well the doctor finds nothing") {
  const CheckupReport report{.hosts = {good_host("a"), good_host("b")},
                             .routes = {route(0, 1, kGigabyte), route(1, 0, kGigabyte)},
                             .exchange_s = 0.5};
  CHECK(said(report).empty());
  CHECK(is_well(findings_of(report)));
  CHECK_THAT(checkup_text(report), Contains("4 of 8, quota 2.5") && Contains("1.0 GiB/s") &&
                                       Contains("50 us") && Contains("+1 us +-2 us") &&
                                       Contains("32768-60999") && Contains("Nothing is wrong."));
}

TEST_CASE("each thing that is wrong with a host is said with what to do, and what may be is a note") {
  CHECK_THAT(said_of([](HostReport& host, ExaminedMessage&) {
               host.trouble = {"host a: lost", "  by ssh"};
             }),
             StartsWith("wrong: host a: lost"));
  CHECK_THAT(said_of([](HostReport&, ExaminedMessage& facts) { facts.open_files = 191; }),
             StartsWith("wrong: host a: 2 ranks may need 192 open files, but the hard limit is 191") &&
                 Contains("limits.conf"));
  CHECK_THAT(said_of([](HostReport&, ExaminedMessage& facts) { facts.processes = 63; }),
             StartsWith("wrong: host a: 2 ranks may need 64 processes") && Contains("limits.conf"));
  CHECK_THAT(said_of([](HostReport&, ExaminedMessage& facts) {
               facts.addresses.clear();
               facts.troubles = {"no such interface"};
             }),
             StartsWith("wrong: host a: it cannot listen at any address (no such interface)") &&
                 Contains("--network-interfaces"));
  CHECK_THAT(said_of([](HostReport&, ExaminedMessage& facts) { facts.usable_units = 1; }),
             StartsWith("note: host a: 2 ranks share 1 processor:"));
  CHECK_THAT(said_of([](HostReport&, ExaminedMessage& facts) { facts.quota_thousandths = 500; }),
             StartsWith("note: host a: 2 ranks share 1 processor granted by the control group:"));
  CHECK_THAT(said_of([](HostReport&, ExaminedMessage& facts) { facts.free_shm = 64 << 20; }),
             StartsWith("note: host a: /dev/shm has 64.0 MiB free") && Contains("mount it larger"));
  CHECK_THAT(said_of([](HostReport&, ExaminedMessage& facts) { facts.is_shm_writable = false; }),
             StartsWith("note: host a: /dev/shm is missing or not writable"));
}

TEST_CASE("a clock counts as another only beyond what the round trip leaves open") {
  const auto skewed = [](std::int64_t ahead_ns, std::int64_t bound_ns) {
    HostReport host = good_host("a");
    host.clock = ClockSkew{ahead_ns, bound_ns};
    return said({.hosts = {host}, .routes = {}});
  };
  CHECK(skewed(-2'000'000'000, 1'000'000'000).empty());
  REQUIRE(skewed(-2'600'000'000, 1'000'000'000).size() == 1);
  CHECK_THAT(skewed(-2'600'000'000, 1'000'000'000)[0],
             StartsWith("note: host a: its clock is 2.6 s behind this host's"));
  CHECK_THAT(skewed(3'000'000'000, 0)[0],
             StartsWith("note: host a: its clock is 3.0 s ahead of this host's"));
}

TEST_CASE("a route that is not there is wrong, one far slower than the others is a note") {
  CheckupReport report{.hosts = {good_host("a"), good_host("b"), good_host("c")}, .routes = {}};
  for (std::size_t from = 0; from < 3; ++from)
    report.routes.push_back(route(from, (from + 1) % 3, kGigabyte));
  report.routes.push_back(route(1, 0, kGigabyte / 5));
  RouteReport missing = route(0, 2, 0);
  missing.address.clear();
  missing.trouble = "10.0.0.3:5: no answer";
  report.routes.push_back(missing);
  const auto lines = said(report);
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0],
             StartsWith("wrong: host a does not reach host c: 10.0.0.3:5: no answer: let firewalls pass") &&
                 Contains("32768 to 60999"));
  CHECK_THAT(lines[1], StartsWith("note: from host b to host a: 204.8 MiB/s, but at least"));
  CHECK_THAT(checkup_json(report),
             Contains("\"is_well\":false") && Contains("\"trouble\":\"10.0.0.3:5: no answer\""));
}

TEST_CASE("of a host that reaches hardly anybody one line says so") {
  CheckupReport report;
  for (const char* name : {"a", "b", "c", "d", "e"}) report.hosts.push_back(good_host(name));
  for (std::size_t to = 1; to < 5; ++to) {
    report.routes.push_back(route(0, to, 0));
    report.routes.back().trouble = "no answer";
  }
  REQUIRE(said(report).size() == 1);
  CHECK_THAT(
      said(report)[0],
      StartsWith("wrong: host a does not reach 4 other hosts; for host b: no answer: let firewalls pass"));
}

TEST_CASE("names of one machine are said to be one") {
  CheckupReport report{.hosts = {good_host("a"), good_host("b")}, .routes = {}};
  report.hosts[1].machine = report.hosts[0].machine;
  REQUIRE(said(report).size() == 1);
  CHECK_THAT(said(report)[0], StartsWith("note: a, b are one machine"));
}

}  // namespace dabke::test
