#include "runtime/backend/host_layout.h"

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using Hosts = std::vector<std::string>;

HostLayout layout(const Hosts& hosts, int rank) {
  ProcessSetInfo set{3, {}, rank};
  for (std::size_t i = 0; i < hosts.size(); ++i) set.ranks.push_back(static_cast<Rank>(i));
  return layout_of(set, leaders_by_name(hosts));
}

}  // namespace

TEST_CASE("the leader of a rank is the lowest whose host has the same name") {
  CHECK(leaders_by_name(Hosts{"a", "b", "a", "b", "c"}) == std::vector<Rank>{0, 1, 0, 1, 4});
}

TEST_CASE("a process set is laid out by its hosts, in the order of its ranks") {
  const HostLayout equal = layout({"a", "a", "b", "b"}, 2);
  CHECK(equal.hosts == std::vector<std::vector<int>>{{0, 1}, {2, 3}});
  CHECK(equal.own_host == 1);
  CHECK(equal.own_index == 0);
  CHECK(equal.is_regular);
  const HostLayout unequal = layout({"a", "b", "b", "b"}, 3);
  CHECK(unequal.least_size == 1);
  CHECK(unequal.most_size == 3);
  CHECK(unequal.own_index == 2);
  CHECK_FALSE(unequal.is_regular);
  CHECK_FALSE(layout({"a", "b", "a", "b"}, 0).is_regular);
  CHECK(layout({"a", "b", "a", "b"}, 0).find(2) == std::pair<std::size_t, std::size_t>(0, 1));
}

TEST_CASE(
    "sets inside and between hosts have ids that no process set of a user has, and know whose they are") {
  const ProcessSetInfo set{3, {10, 11, 12, 13, 14}, 4};
  const HostLayout laid = layout({"a", "a", "b", "b", "b"}, 4);
  CHECK(ranks_inside(set, laid).ranks == std::vector<Rank>{12, 13, 14});
  CHECK(ranks_inside(set, laid).rank == 2);
  CHECK(ranks_between(set, laid).ranks == std::vector<Rank>{14});
  for (const ProcessSetId id : {0, 1, 2, 3}) {
    const ProcessSetInfo one{id, set.ranks, 4};
    const ProcessSetId inside = ranks_inside(one, laid).id;
    const ProcessSetId between = ranks_between(one, laid).id;
    CHECK(inside < 0);
    CHECK(between < 0);
    CHECK(inside != between);
    CHECK(whole_of(inside) == id);
    CHECK(whole_of(between) == id);
    CHECK(whole_of(id) == id);
  }
  CHECK(describe_set(3) == "process set 3");
  CHECK(describe_set(inside_hosts(3)) == "process set 3 inside a host");
  CHECK(describe_set(between_hosts(0)) == "process set 0 between hosts");
}

}  // namespace dabke::test
