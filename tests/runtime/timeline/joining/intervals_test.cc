#include "runtime/timeline/joining/intervals.h"

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <limits>
#include <random>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

constexpr std::size_t kMoments = 96;
/// The moments of a small world, of one nanosecond each.
using Moments = std::bitset<kMoments>;

Moments moments_of(const timeline::Intervals& intervals) {
  Moments moments;
  for (const timeline::Interval& one : intervals) {
    for (std::int64_t at = one.begin_ns; at < one.end_ns; ++at) moments.set(static_cast<std::size_t>(at));
  }
  return moments;
}

/// True if the intervals are as the functions promise: none empty, in order, with gaps between them.
bool is_united(const timeline::Intervals& intervals) {
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].begin_ns >= intervals[i].end_ns) return false;
    if (i > 0 && intervals[i - 1].end_ns >= intervals[i].begin_ns) return false;
  }
  return true;
}

/// Up to a dozen intervals. Some are empty, some end before they begin, some touch.
timeline::Intervals random_intervals(std::mt19937& random) {
  timeline::Intervals any(random() % 13);
  for (timeline::Interval& one : any) {
    one.begin_ns = static_cast<std::int64_t>(random() % kMoments);
    one.end_ns =
        std::min<std::int64_t>(kMoments, one.begin_ns - 2 + static_cast<std::int64_t>(random() % 16));
  }
  return any;
}

}  // namespace

TEST_CASE("of nothing nothing is left") {
  const timeline::Intervals some = {{1, 5}};
  CHECK(timeline::united({}).empty());
  CHECK(timeline::common({}, some).empty());
  CHECK(timeline::common(some, {}).empty());
  CHECK(timeline::without({}, some).empty());
  CHECK(timeline::without(some, {}) == some);
  CHECK(timeline::length_ns({}) == 0);
  CHECK(timeline::length_within_ns({}, {0, 10}) == 0);
}

TEST_CASE("intervals that are empty, or end before they begin, are of nothing") {
  CHECK(timeline::united({{3, 3}, {9, 2}}).empty());
  CHECK(timeline::united({{3, 3}, {1, 2}, {9, 2}}) == timeline::Intervals{{1, 2}});
}

TEST_CASE("intervals that touch become one, and share nothing") {
  CHECK(timeline::united({{5, 9}, {1, 5}}) == timeline::Intervals{{1, 9}});
  CHECK(timeline::common({{1, 5}}, {{5, 9}}).empty());
  CHECK(timeline::without({{1, 5}}, {{5, 9}}) == timeline::Intervals{{1, 5}});
  CHECK(timeline::without({{1, 5}}, {{0, 1}}) == timeline::Intervals{{1, 5}});
}

TEST_CASE("what happens at once is counted once") {
  CHECK(timeline::united({{1, 5}, {2, 3}, {4, 8}, {1, 5}}) == timeline::Intervals{{1, 8}});
  CHECK(timeline::length_ns(timeline::united({{1, 5}, {2, 3}, {4, 8}})) == 7);
}

TEST_CASE("an interval loses what lies in any of the others") {
  CHECK(timeline::without({{0, 10}}, {{2, 4}, {6, 7}}) == timeline::Intervals{{0, 2}, {4, 6}, {7, 10}});
  CHECK(timeline::without({{0, 10}, {20, 30}}, {{5, 25}}) == timeline::Intervals{{0, 5}, {25, 30}});
  CHECK(timeline::without({{2, 4}, {6, 8}}, {{0, 10}}).empty());
}

TEST_CASE("two sets share what lies in both") {
  CHECK(timeline::common({{0, 10}}, {{2, 4}, {6, 12}}) == timeline::Intervals{{2, 4}, {6, 10}});
  CHECK(timeline::common({{0, 3}, {5, 8}}, {{2, 6}}) == timeline::Intervals{{2, 3}, {5, 6}});
}

TEST_CASE("of intervals as much is counted as lies in the window") {
  const timeline::Intervals some = {{0, 3}, {5, 8}, {10, 12}};
  CHECK(timeline::length_within_ns(some, {2, 11}) == 5);
  CHECK(timeline::length_within_ns(some, {3, 5}) == 0);
  CHECK(timeline::length_within_ns(some, {6, 7}) == 1);
  CHECK(timeline::length_within_ns(some, {-5, 50}) == 8);
}

TEST_CASE("moments from one end of the clock to the other are united") {
  constexpr std::int64_t kFar = std::int64_t{1} << 62;
  CHECK(timeline::united({{-kFar, 0}, {0, kFar - 1}}) == timeline::Intervals{{-kFar, kFar - 1}});
  CHECK(timeline::without({{-kFar, kFar - 1}}, {{-1, 1}}) == timeline::Intervals{{-kFar, -1}, {1, kFar - 1}});
}

TEST_CASE("a sum of lengths that no number can hold is the largest number") {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  std::int64_t sum = 1;
  timeline::add_ns(sum, 2);
  CHECK(sum == 3);
  timeline::add_ns(sum, kLargest - 3);
  CHECK(sum == kLargest);
  timeline::add_ns(sum, std::int64_t{1} << 62);
  CHECK(sum == kLargest);
}

TEST_CASE("whatever the intervals, they are the moments that a bitmap says") {
  std::mt19937 random(11);
  for (int round = 0; round < 20'000; ++round) {
    const timeline::Intervals one = random_intervals(random), other = random_intervals(random);
    const timeline::Intervals a = timeline::united(one), b = timeline::united(other);
    const timeline::Interval window = {static_cast<std::int64_t>(random() % 48),
                                       static_cast<std::int64_t>(48 + random() % 48)};
    const Moments in_a = moments_of(a), in_b = moments_of(b);
    const timeline::Intervals both = timeline::common(a, b), left = timeline::without(a, b);
    const bool holds = in_a == moments_of(one) && is_united(a) && moments_of(both) == (in_a & in_b) &&
                       is_united(both) && moments_of(left) == (in_a & ~in_b) && is_united(left) &&
                       timeline::length_ns(a) == static_cast<std::int64_t>(in_a.count()) &&
                       timeline::length_within_ns(a, window) ==
                           static_cast<std::int64_t>((in_a & moments_of({window})).count());
    CAPTURE(round);
    if (!holds) FAIL("another set of moments than the bitmap's");
  }
}

}  // namespace dabke::test
