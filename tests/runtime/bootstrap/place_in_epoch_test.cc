#include "runtime/bootstrap/place_in_epoch.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {

using namespace bootstrap;

namespace {

EpochMember member(std::string host, int local_rank) {
  EpochMember made;
  made.host = std::move(host);
  made.local_rank = local_rank;
  return made;
}

}  // namespace

TEST_CASE("local and cross numbers count the members of an epoch, and local ranks keep their holes") {
  EpochPlan plan;
  plan.members = {member("a", 0), member("a", 3), member("b", 3), member("b", 1), member("c", 3)};
  const auto numbers = [&](Rank rank) {
    const HostPlacement placement = placement_in(plan, rank);
    return std::vector{placement.local_rank, placement.local_size, placement.cross_rank,
                       placement.cross_size};
  };
  CHECK(numbers(0) == std::vector{0, 2, 0, 1});
  CHECK(numbers(1) == std::vector{3, 2, 0, 3});
  CHECK(numbers(2) == std::vector{3, 2, 1, 3});
  CHECK(numbers(3) == std::vector{1, 2, 0, 1});
  CHECK(numbers(4) == std::vector{3, 1, 2, 3});
}

TEST_CASE("the roster of an epoch has the hosts and processes of its plan") {
  EpochPlan plan;
  plan.epoch = 9;
  plan.members = {member("a", 0), member("b", 0)};
  plan.members[1].process.pid = 7;
  const Roster roster = roster_of(plan);
  CHECK(roster.epoch == 9);
  CHECK(roster.hosts == std::vector<std::string>{"a", "b"});
  REQUIRE(roster.processes.size() == 2);
  CHECK(roster.processes[1].pid == 7);
}

}  // namespace dabke::test
