#include "runtime/negotiation/tables/topology.h"

#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/runtime/negotiation/simulated_job.h"

namespace dabke::test {

TEST_CASE("the ranks of a host report to its lowest rank, and the leaders form a tree") {
  const auto tree = tree_of(12, 2, 2);  // leaders 0, 2, 4, 6, 8, 10
  CHECK(tree->children(0) == std::vector<Rank>{1, 2, 4});
  CHECK(tree->children(2) == std::vector<Rank>{3, 6, 8});
  CHECK(tree->children(4) == std::vector<Rank>{5, 10});
  CHECK(tree->parent(0) == -1);
  CHECK(tree->parent(11) == 10);
  CHECK(tree->subtree(4) == std::vector<Rank>{4, 5, 10, 11});
  CHECK(tree->subtree_size(4) == 4);
  CHECK(tree->is_below(11, 4));
  CHECK_FALSE(tree->is_below(4, 11));
  CHECK(tree->neighbours(2) == std::vector<Rank>{0, 3, 6, 8});
  CHECK(tree->depth() == 3);
}

TEST_CASE("no rank has more children than the radix and its host allow, at any size") {
  const int radix = GENERATE(1, 2, 8);
  const int per_host = GENERATE(1, 3, 100);
  const auto tree = tree_of(1000, per_host, radix);
  int below_root = 0;
  for (Rank rank = 0; rank < 1000; ++rank) {
    CHECK(tree->children(rank).size() <=
          static_cast<std::size_t>(radix + negotiation::Topology::kLocalRadix));
    CHECK(std::ranges::is_sorted(tree->children(rank)));
    below_root += rank != 0 && tree->is_below(rank, 0);
  }
  CHECK(below_root == 999);
}

TEST_CASE("radix 0 is a star, and hosts may be scattered over the ranks") {
  CHECK(negotiation::Topology(5, {}, 0).children(0) == std::vector<Rank>{1, 2, 3, 4});
  const negotiation::Topology scattered(4, {"a", "b", "a", "b"}, 8);
  CHECK(scattered.children(0) == std::vector<Rank>{1, 2});
  CHECK(scattered.children(1) == std::vector<Rank>{3});
  CHECK(scattered.name(3) == "rank 3 on b");
}

}  // namespace dabke::test
