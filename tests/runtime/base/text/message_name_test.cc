#include "runtime/base/text/message_name.h"

#include <array>

#include <catch2/catch.hpp>

#include "runtime/base/pair_sets.h"

namespace dabke::test {

TEST_CASE("the name of a message has its ranks, and its tag and process set if they are not 0") {
  CHECK(message_name("x", 0, 1, 0, kWorldSet) == "x [0 to 1]");
  CHECK(message_name("x", 1, 0, -7, kWorldSet) == "x [1 to 0, tag -7]");
  CHECK(message_name("x", kAnyRank, 1, 7, kWorldSet) == "x [any to 1, tag 7]");
  CHECK(message_name("x", 0, 12, 3, 4) == "x [0 to 12, tag 3, process set 4]");
}

TEST_CASE("the process set is read from the name, whatever the caller's part of it contains") {
  for (const char* const name : {"x", "x, process set 5", "x [0 to 1, process set 5]", "[", ""}) {
    CAPTURE(name);
    CHECK(set_of_message(message_name(name, 0, 1, 2, kWorldSet)) == kWorldSet);
    CHECK(set_of_message(message_name(name, 0, 1, 0, 17)) == 17);
  }
}

TEST_CASE("a message from any rank gets its sender's name, whatever the caller's part of it contains") {
  for (const char* const name : {"x", "x [any to 1]", "[", "", " [any to "}) {
    CAPTURE(name);
    for (const ProcessSetId set : {kWorldSet, 3}) {
      const std::string from_any = message_name(name, kAnyRank, 1, 7, set);
      CHECK(is_name_from_any(from_any));
      CHECK(with_sender(from_any, 12) == message_name(name, 12, 1, 7, set));
      CHECK_FALSE(is_name_from_any(with_sender(from_any, 12)));
    }
  }
}

TEST_CASE("the number of a pair determines its ranks") {
  ProcessSetId next = kFirstPair;
  for (Rank high = 1; high < 200; ++high) {
    for (Rank low = 0; low < high; ++low, ++next) {
      REQUIRE(pair_of(low, high) == next);
      REQUIRE(pair_of(high, low) == next);
      REQUIRE(ranks_of_pair(next) == std::array<Rank, 2>{low, high});
      REQUIRE(is_pair_in(next, high + 1));
      REQUIRE_FALSE(is_pair_in(next, high));
    }
  }
  constexpr Rank kLast = kMostRanksOfPairs - 1;
  CHECK(ranks_of_pair(pair_of(kLast - 1, kLast)) == std::array<Rank, 2>{kLast - 1, kLast});
  CHECK_FALSE(is_pair(kFirstPair - 1));
}

}  // namespace dabke::test
