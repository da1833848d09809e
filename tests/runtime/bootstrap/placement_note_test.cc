#include "runtime/bootstrap/placement_note.h"

#include <catch2/catch.hpp>

namespace dabke::test {

TEST_CASE("a placement is read as it was written, with hosts whose ranks are no neighbours") {
  const auto placed = bootstrap::read_placement_note(bootstrap::placement_note({"a", "a", "b c", "a"}));
  CHECK(placed == std::vector<bootstrap::PlacedRanks>{{0, 1, "a"}, {2, 2, "b c"}, {3, 3, "a"}});
}

TEST_CASE("lines of a placement that make no sense are left out") {
  CHECK(bootstrap::read_placement_note("x\n0 a\n1 0 a\n-1 2 a\n3 4 \n3 4\n5 6 b\n99999999999 1 c").size() ==
        1);
  CHECK(bootstrap::read_placement_note("").empty());
}

TEST_CASE("ranks are named by neighbours and hosts, and of very many the first") {
  const std::vector<bootstrap::PlacedRanks> placed{{0, 11, "server1"}, {12, 20, "server2"}};
  CHECK(bootstrap::name_ranks({11, 12, 13, 14, 20}, placed) ==
        "rank 11 on server1, ranks 12-14 on server2, rank 20 on server2");
  CHECK(bootstrap::name_ranks({1, 2, 4}, {}) == "ranks 1-2, rank 4");
  CHECK(bootstrap::name_ranks({}, placed).empty());
  std::vector<int> odd;
  for (int rank = 1; rank < 40; rank += 2) odd.push_back(rank);
  CHECK(bootstrap::name_ranks(odd, {}) ==
        "rank 1, rank 3, rank 5, rank 7, rank 9, rank 11, rank 13, rank 15 and 12 more");
}

}  // namespace dabke::test
