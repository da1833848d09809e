#include "runtime/timeline/joining/clock_alignment.h"

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using Source = timeline::AlignedClock::Source;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kHour = 3600 * kSecond;

timeline::ClockFacts rank_on(Rank rank, const std::string& host,
                             std::vector<timeline::ClockSample> samples = {}) {
  timeline::ClockFacts facts;
  facts.origin.rank = rank;
  facts.origin.host = host;
  facts.origin.clock = {"boot of " + host, 1};
  facts.samples = std::move(samples);
  return facts;
}

}  // namespace

TEST_CASE("ranks of one kernel share a clock, whatever their hosts are called") {
  auto renamed = rank_on(1, "b");
  renamed.origin.clock = {"boot of a", 1};
  const auto clocks = timeline::align_clocks({rank_on(0, "a"), renamed});
  for (const timeline::AlignedClock& clock : clocks) {
    CHECK(clock.source() == Source::same);
    CHECK(clock.at(123) == 123);
    CHECK(clock.offset_ns() == 0);
    CHECK(clock.error_ns() == 0);
  }
}

TEST_CASE("a drifting clock follows the line between two comparisons, and stays beyond them") {
  const auto clocks = timeline::align_clocks(
      {rank_on(0, "a"), rank_on(1, "b", {{10 * kSecond, kHour, 50, 0}, {20 * kSecond, kHour + 1000, 70, 0}}),
       rank_on(2, "b")});
  for (const std::size_t rank :
       {std::size_t{1}, std::size_t{2}}) {  // the neighbour of the second one has compared clocks
    const timeline::AlignedClock& clock = clocks[rank];
    CHECK(clock.source() == Source::compared);
    CHECK(clock.at(15 * kSecond) == 15 * kSecond + kHour + 500);
    CHECK(clock.at(0) == kHour);
    CHECK(clock.at(90 * kSecond) == 90 * kSecond + kHour + 1000);
    CHECK(clock.error_ns() == 70);
  }
}

TEST_CASE("comparisons lead from host to host, and their errors add up") {
  // The order is one in which the path to the first clock is not known at first.
  const auto clocks = timeline::align_clocks(
      {rank_on(0, "a"), rank_on(1, "c", {{0, -30, 5, 2}}), rank_on(2, "b", {{0, 100, 7, 0}})});
  CHECK(clocks[2].at(1000) == 1100);
  CHECK(clocks[1].at(1000) == 1070);
  CHECK(clocks[1].offset_ns() == 70);
  CHECK(clocks[1].error_ns() == 12);
}

TEST_CASE("clocks that nobody has compared go by the time of day, and nobody knows how wrong that is") {
  auto first = rank_on(0, "a");
  auto second = rank_on(1, "b");
  std::tie(first.origin.monotonic_ns, first.origin.realtime_ns) = std::pair(5 * kSecond, 1000 * kSecond);
  std::tie(second.origin.monotonic_ns, second.origin.realtime_ns) = std::pair(700 * kSecond, 1001 * kSecond);
  const auto clocks = timeline::align_clocks({first, second});
  CHECK(clocks[1].source() == Source::wall);
  CHECK(clocks[1].at(700 * kSecond) == 6 * kSecond);
  CHECK_FALSE(clocks[1].error_ns());
}

TEST_CASE("two hosts without a boot id do not share a clock") {
  auto first = rank_on(0, "a");
  auto second = rank_on(1, "b");
  first.origin.clock = second.origin.clock = {};
  CHECK(timeline::align_clocks({first, second})[1].source() == Source::wall);
}

TEST_CASE("comparisons that no clocks could give overflow nothing") {
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  std::vector<timeline::ClockFacts> ranks{rank_on(0, "host 0")};
  for (Rank rank = 1; rank < 20; ++rank)
    ranks.push_back(rank_on(rank, "host " + std::to_string(rank), {{0, kMost, kMost, rank - 1}}));
  const auto clocks = timeline::align_clocks(ranks);
  CHECK(clocks.back().at(std::int64_t{1} << 62) == std::int64_t{1} << 62);
  CHECK(clocks.back().error_ns() == std::int64_t{1} << 62);
}

TEST_CASE("the clocks of epochs are chained by the hosts that were in both") {
  const auto in_epoch = [](std::uint64_t epoch, timeline::ClockFacts facts) {
    facts.origin.epoch = epoch;
    return facts;
  };
  // Host a has the one clock, and is lost. In epoch 2, rank 0 is on host b, and host c compares with b.
  const auto clocks = timeline::align_clocks(
      {in_epoch(1, rank_on(0, "a")), in_epoch(1, rank_on(1, "b", {{10 * kSecond, kHour, 50, 0}})),
       in_epoch(2, rank_on(0, "b")), in_epoch(2, rank_on(1, "c", {{0, kSecond, 7, 0}}))});
  CHECK(clocks[2].at(0) == kHour);
  CHECK(clocks[2].source() == Source::compared);
  CHECK(clocks[3].at(0) == kHour + kSecond);
  CHECK(clocks[3].source() == Source::compared);
  CHECK(clocks[3].error_ns() == 57);
}

TEST_CASE("a clock that was compared in several epochs follows the comparisons of all of them") {
  auto first = rank_on(1, "b", {{10 * kSecond, kHour, 50, 0}});
  auto later = rank_on(1, "b", {{20 * kSecond, kHour + 1000, 70, 0}});
  later.origin.epoch = 2;
  auto root = rank_on(0, "a");
  root.origin.epoch = 2;
  for (const auto& clock : timeline::align_clocks({rank_on(0, "a"), first, root, later})) {
    if (clock.source() == Source::compared) CHECK(clock.at(15 * kSecond) == 15 * kSecond + kHour + 500);
  }
}

}  // namespace dabke::test
