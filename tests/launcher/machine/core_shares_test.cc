#include "launcher/machine/core_shares.h"

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

using Units = std::vector<std::vector<int>>;

/// Two caches of three cores with two units each. The units of a core are N and N + 6.
HostCores twelve_units() {
  HostCores host;
  for (const int first : {0, 3}) {
    CacheCores& cache = host.caches.emplace_back();
    for (int core = first; core < first + 3; ++core) cache.push_back({core, core + 6});
  }
  return host;
}

}  // namespace

TEST_CASE("each rank gets an equal share of whole cores, within one cache where it fits") {
  CHECK(share_cores(twelve_units(), 2, BindTo::core).units ==
        Units{{0, 6, 1, 7, 2, 8}, {3, 9, 4, 10, 5, 11}});
  CHECK(share_cores(twelve_units(), 6, BindTo::core).units ==
        Units{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}});
  HostCores uneven;
  uneven.caches = {{{0}, {1}, {2}, {3}, {4}}, {{5}, {6}, {7}, {8}, {9}}};
  CHECK(share_cores(uneven, 4, BindTo::core).units == Units{{0, 1}, {2, 3}, {5, 6}, {7, 8}});
  CHECK(share_cores(uneven, 3, BindTo::core).units == Units{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}});
}

TEST_CASE("more ranks than cores share the units of cores, and more ranks than units are not bound") {
  CHECK(share_cores(twelve_units(), 12, BindTo::core).units.size() == 12);
  CHECK(share_cores(twelve_units(), 12, BindTo::core).threads == 1);
  const CoreShares none = share_cores(twelve_units(), 13, BindTo::core);
  CHECK(none.units.empty());
  CHECK(none.threads == 1);
  CHECK(none.words == "not bound, because 13 ranks share 12 cores");
}

TEST_CASE("threads are as many as cores, and one rank that has all is not told") {
  CHECK(share_cores(twelve_units(), 2, BindTo::automatic).threads == 3);
  CHECK(share_cores(twelve_units(), 4, BindTo::automatic).threads == 1);
  CHECK(share_cores(twelve_units(), 1, BindTo::automatic).threads == 0);
  CHECK(share_cores(twelve_units(), 2, BindTo::none).threads == 0);
}

TEST_CASE(
    "on a whole host that the job does not fill nobody is bound unless asked for, since another may run "
    "there") {
  HostCores host = twelve_units();
  host.is_whole_host = true;
  CHECK(share_cores(host, 2, BindTo::automatic).units.empty());
  CHECK(share_cores(host, 2, BindTo::automatic).threads == 3);
  CHECK(share_cores(host, 2, BindTo::core).units.size() == 2);
  CHECK(share_cores(host, 6, BindTo::automatic).units.size() == 6);
  // A second job of the same size would be bound to the same five cores, and the sixth core would be idle.
  CHECK(share_cores(host, 5, BindTo::automatic).units.empty());
  CHECK(share_cores(host, 11, BindTo::automatic).units.empty());
  CHECK(share_cores(host, 12, BindTo::automatic).units.size() == 12);
}

TEST_CASE("where nobody knows which units are one core, none is bound unless asked for") {
  HostCores host;
  host.caches = {{{0}, {1}, {2}, {3}}};
  host.is_guessed = true;
  CHECK(share_cores(host, 2, BindTo::automatic).units.empty());
  CHECK(share_cores(host, 2, BindTo::automatic).threads == 2);
  CHECK(share_cores(host, 2, BindTo::core).units == Units{{0, 1}, {2, 3}});
}

TEST_CASE("a quota of processors counts as cores, and says not which") {
  HostCores host = twelve_units();
  host.quota = 4.5;
  CHECK(share_cores(host, 2, BindTo::automatic).units.empty());
  CHECK(share_cores(host, 2, BindTo::automatic).threads == 2);
  CHECK(share_cores(host, 1, BindTo::automatic).threads == 4);
  CHECK(share_cores(host, 5, BindTo::core).words ==
        "not bound, because 5 ranks share 4 cores (the control group's quota is 4.5)");
  host.quota = 100;
  CHECK(share_cores(host, 2, BindTo::automatic).units.size() == 2);
}

}  // namespace dabke::test
