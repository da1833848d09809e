#include "runtime/timeline/joining/epoch_changes.h"

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using timeline::EpochRoster;
using timeline::Interval;
using timeline::RankInEpoch;
using What = timeline::Record::What;

const EpochRoster kFirst{.members = {{-1, "a"}, {-1, "a"}, {-1, "a"}}};
const EpochRoster kSecond{.members = {{1, "a"}, {2, "a"}}, .lost = {{0, "a", "was killed"}}};
const EpochRoster kThird{.members = {{0, "a"}, {1, "a"}, {-1, "a"}}};

/// Rank 0 is lost, and much later a rank joins.
std::vector<RankInEpoch> job() {
  return {{1, 0, kFirst, {.work_ns = 1, .error_ns = 5}, 90},
          {1, 1, kFirst, {.work_ns = 2, .leave_ns = 110}, 120},
          {1, 2, kFirst, {.work_ns = 3, .error_ns = 105, .leave_ns = 115}, 130},
          {2, 0, kSecond, {.work_ns = 210, .leave_ns = 500}, 501},
          {2, 1, kSecond, {.work_ns = 200, .leave_ns = 502}, 503},
          {3, 0, kThird, {.work_ns = 620}, 900},
          {3, 1, kThird, {.work_ns = 610}, 910},
          {3, 2, kThird, {.work_ns = 600}, 920}};
}

std::vector<Interval> times(const std::vector<timeline::EpochChange>& changes) {
  std::vector<Interval> all;
  for (const auto& change : changes) all.push_back(change.when);
  return all;
}

}  // namespace

TEST_CASE("a change lasts from the first error or leave of a survivor to the first work of the next epoch") {
  const auto changes = changes_of(job());
  CHECK(times(changes) == std::vector<Interval>{{105, 200}, {500, 600}});
  CHECK(changes[0].epoch == 2);
  CHECK(changes[0].text == "rank 0 (host a) was killed; 2 of 3 ranks go on");
  CHECK(changes[1].epoch == 3);
  CHECK(changes[1].text == "rank 2 (host a) joins; 2 of 2 ranks go on");
}

TEST_CASE("a change that was not recorded is left out: its length is not known") {
  auto stopped = job();  // the recording had stopped before the first change
  stopped[1].moments.leave_ns = stopped[2].moments.leave_ns = stopped[2].moments.error_ns = {};
  CHECK(times(changes_of(stopped)) == std::vector<Interval>{{500, 600}});
  auto late = job();  // it began after the first change
  late[3].roster.is_late = late[4].roster.is_late = true;
  CHECK(times(changes_of(late)) == std::vector<Interval>{{500, 600}});
}

TEST_CASE("an epoch that did no work belongs to the changes on both sides") {
  auto ranks = job();
  ranks[3].moments.work_ns = ranks[4].moments.work_ns = {};
  CHECK(times(changes_of(ranks)) == std::vector<Interval>{{105, 500}, {500, 600}});
  for (auto& rank : ranks) rank.moments.work_ns = {};
  CHECK(times(changes_of(ranks)) == std::vector<Interval>{{105, 500}, {500, 920}});
}

TEST_CASE("an epoch that has left no file makes one change of two, without the words of the first") {
  auto ranks = job();
  ranks.erase(ranks.begin() + 3, ranks.begin() + 5);
  const auto changes = changes_of(ranks);
  CHECK(times(changes) == std::vector<Interval>{{5, 600}});  // it is not known who was lost
  CHECK(changes[0].text == "rank 2 (host a) joins; 2 ranks go on");
}

TEST_CASE("times that contradict each other make no changes that overlap or end before they begin") {
  auto ranks = job();
  ranks[3].moments = {.work_ns = 50, .leave_ns = 60};
  ranks[4].moments = {.work_ns = 50, .leave_ns = 60};
  CHECK(times(changes_of(ranks)) == std::vector<Interval>{{105, 105}, {105, 600}});
}

TEST_CASE("the moments of a rank: its first work, the errors at its end, and when it leaves") {
  timeline::EpochMoments moments;
  const auto take = [&](std::int64_t at_ns, What what) { moments.take({.time_ns = at_ns, .what = what}); };
  take(1, What::submit);
  take(2, What::error);  // an error of the program, which goes on
  take(3, What::order);
  take(4, What::done);
  take(5, What::step);
  take(6, What::error);
  take(7, What::error);
  take(8, What::leave);
  CHECK(moments.work_ns == 3);
  CHECK(moments.error_ns == 6);
  CHECK(moments.leave_ns == 8);
}

}  // namespace dabke::test
