#include "runtime/timeline/epoch_roster.h"

#include <string>

#include <catch2/catch.hpp>

#include "runtime/timeline/record_form.h"

namespace dabke::test {
namespace {

using timeline::EpochRoster;

const EpochRoster kFirst{.members = {{-1, "a"}, {-1, "a"}, {-1, "b"}}};
const EpochRoster kSecond{.members = {{1, "a"}, {-1, "c d"}},
                          .lost = {{0, "a", "was killed by SIGKILL (signal 9)\nat noon"}}};

}  // namespace

TEST_CASE("the members of an epoch are read back from their text, and a reason is one line") {
  CHECK(timeline::read_epoch_roster(to_text(kFirst)) == kFirst);
  EpochRoster one_line = kSecond;
  one_line.lost[0].why = "was killed by SIGKILL (signal 9) at noon";
  CHECK(timeline::read_epoch_roster(to_text(kSecond)) == one_line);
  CHECK(timeline::read_epoch_roster("") == EpochRoster{});
  EpochRoster late = kFirst;
  late.is_late = true;
  CHECK(timeline::read_epoch_roster(to_text(late)) == late);
}

TEST_CASE("a text that does not name members is refused") {
  const std::string text = GENERATE("member", "member x a\n", "member -2 a\n", "lost -1 a why\n",
                                    "rank 1 a\n", "\n", "member 99999999999999999999 a\n");
  CAPTURE(text);
  CHECK_FALSE(timeline::read_epoch_roster(text).has_value());
}

TEST_CASE("a change is told with who was lost and why, who leaves, who joins and how many go on") {
  CHECK(
      change_text(kSecond, &kFirst) ==
      "rank 0 (host a) was killed by SIGKILL (signal 9)\nat noon; rank 2 (host b) leaves; rank 1 (host c d) "
      "joins; 1 of 3 ranks go on");
  CHECK(change_text(kSecond, nullptr) ==
        "rank 0 (host a) was killed by SIGKILL (signal 9)\nat noon; rank 1 (host c d) joins; 1 rank goes on");
  const EpochRoster same{.members = {{0, "a"}, {1, "a"}, {2, "b"}}};
  CHECK(change_text(same, &kFirst) == "3 of 3 ranks go on");
}

TEST_CASE("each epoch of an elastic job has files of its own, and the first keeps the usual name") {
  timeline::TimelineOrigin origin{.epoch = 2, .rank = 3, .size = 4};
  CHECK(suffix_of(origin) == ".rank3");  // the second init of a job that is not elastic
  origin.roster = kFirst;
  CHECK(suffix_of(origin) == ".epoch2.rank3");
  origin.epoch = 1;
  CHECK(suffix_of(origin) == ".rank3");
}

}  // namespace dabke::test
