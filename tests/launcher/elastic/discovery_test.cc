#include "launcher/elastic/discovery.h"

#include <poll.h>

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "tests/patience.h"
#include "tests/temporary_directory.h"

namespace dabke::test {
using namespace launcher;
namespace {

using namespace std::chrono_literals;
using Catch::Contains;

/// Drives the discovery, as dabkerun does, until `is_done`. False if that takes too long.
bool drive(Discovery& discovery, const std::function<bool()>& is_done) {
  const TimePoint until = Clock::now() + kPatience;
  while (!is_done()) {
    if (Clock::now() > until) return false;
    std::vector<pollfd> entries;
    discovery.add_poll_entries(entries);
    ::poll(entries.data(), entries.size(), poll_timeout_ms(discovery.deadline()));
    for (const pollfd& entry : entries) discovery.handle(entry);
    discovery.tick(Clock::now());
  }
  return true;
}

std::optional<std::vector<Host>> next_hosts(Discovery& discovery) {
  std::optional<std::vector<Host>> hosts;
  (void)drive(discovery, [&] { return (hosts = discovery.take_hosts()).has_value(); });
  return hosts;
}

std::string next_trouble(Discovery& discovery) {
  std::string trouble;
  (void)drive(discovery, [&] { return !(trouble = discovery.take_trouble()).empty(); });
  return trouble;
}

}  // namespace

TEST_CASE("a discovery reports each new list of hosts once") {
  const TemporaryDirectory directory;
  const std::string list = directory.path() + "/list";
  std::ofstream(list) << "a:2\nb\n# none\n";
  Discovery discovery({.script = "cat " + list, .slots_per_host = 3, .interval = 1ms});
  CHECK(next_hosts(discovery) == std::vector<Host>{{"a", 2}, {"b", 3}});
  int runs = 0;
  CHECK(drive(discovery, [&] { return ++runs > 20; }));
  CHECK_FALSE(discovery.take_hosts());
  std::ofstream(list) << "";
  CHECK(next_hosts(discovery) == std::vector<Host>{});
}

TEST_CASE("a discovery that fails says why once, and the last list stays") {
  const TemporaryDirectory directory;
  const std::string script = directory.path() + "/script";
  std::ofstream(script) << "echo oh dear >&2; exit 7";
  Discovery discovery({.script = ". " + script, .interval = 1ms});
  CHECK(next_trouble(discovery) ==
        "--host-discovery-script . " + script + ": it exited with status code 7: oh dear; it is tried again");
  int runs = 0;
  CHECK(drive(discovery, [&] { return ++runs > 20; }));
  CHECK(discovery.take_trouble().empty());
  std::ofstream(script) << "echo a";
  CHECK(next_hosts(discovery) == std::vector<Host>{{"a", 1}});
  std::ofstream(script) << "echo a:none";
  CHECK_THAT(next_trouble(discovery),
             Contains("its output line 1: 'a:none' is not a host") && Contains("; the last list stays"));
}

TEST_CASE("a discovery that hangs is killed at its limit, with what it has started") {
  Discovery discovery({.script = "sleep 1000 & wait", .interval = 1ms, .limit = 100ms});
  CHECK_THAT(next_trouble(discovery), Contains("no list within 0.1 s; it is tried again"));
}

}  // namespace dabke::test
