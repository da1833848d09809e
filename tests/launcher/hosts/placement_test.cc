#include "launcher/hosts/placement.h"

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;

TEST_CASE("ranks fill the slots of each host in order") {
  const auto placements = place_ranks({{"a", 2}, {"b", 3}}, 4);
  REQUIRE(placements.is_ok());
  CHECK(*placements == std::vector<RankPlacement>{{0, 4, 0, 2, 0, 2, "a"},
                                                  {1, 4, 1, 2, 0, 2, "a"},
                                                  {2, 4, 0, 2, 1, 2, "b"},
                                                  {3, 4, 1, 2, 1, 2, "b"}});
}

TEST_CASE("cross ranks count only the hosts that have the local rank") {
  const auto placements = place_ranks({{"a", 1}, {"b", 2}, {"c", 2}}, 0);
  REQUIRE(placements.is_ok());
  REQUIRE(placements->size() == 5);
  CHECK((*placements)[1] == RankPlacement{1, 5, 0, 2, 1, 3, "b"});
  CHECK((*placements)[2] == RankPlacement{2, 5, 1, 2, 0, 2, "b"});
  CHECK((*placements)[4] == RankPlacement{4, 5, 1, 2, 1, 2, "c"});
}

TEST_CASE("hosts that turn out to be one are numbered as one, whatever ranks lie between") {
  const auto placements = place_ranks({{"a", 2}, {"b", 1}, {"a-ib", 2}}, 0);
  REQUIRE(placements.is_ok());
  CHECK(with_hosts_merged(*placements, {{"a-ib", "a"}}) ==
        std::vector<RankPlacement>{{0, 5, 0, 4, 0, 2, "a"},
                                   {1, 5, 1, 4, 0, 1, "a"},
                                   {2, 5, 0, 1, 1, 2, "b"},
                                   {3, 5, 2, 4, 0, 1, "a"},
                                   {4, 5, 3, 4, 0, 1, "a"}});
  CHECK(with_hosts_merged(*placements, {}) == *placements);
}

TEST_CASE("two ranks on a host of four slots are two ranks") {
  const auto placements = place_ranks({{"a", 4}}, 2);
  REQUIRE(placements.is_ok());
  CHECK(placements->size() == 2);
  CHECK(placements->back().local_size == 2);
}

TEST_CASE("more ranks than slots are refused with both numbers") {
  CHECK(place_ranks({{"a", 1}, {"b", 2}}, 4).status().message() ==
        "-np 4 asks for more processes than a:1,b:2 has slots (3): lower -np or give the hosts more slots");
}

TEST_CASE("more slots than ranks can be are refused only where each would have one") {
  std::vector<Host> many;
  for (int i = 0; i < 2148; ++i) many.push_back({"h" + std::to_string(i), kMostSlots});
  CHECK_THAT(place_ranks(many, 0).status().message(), Catch::Contains("give their number with -np"));
  const auto placements = place_ranks(many, 2);
  REQUIRE(placements.is_ok());
  CHECK(placements->size() == 2);
}

}  // namespace dabke::test
