#include "tests/gpu/clock.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/gpu/cuda_rank.h"

namespace dabke::test {

/// The host detects that a device has reached an event between two reads of its own clock. The event's time
/// should lie between them.
int compare_clocks() {
  constexpr Duration kFor = std::chrono::seconds(3);
  constexpr Duration kPause = std::chrono::milliseconds(1);
  const auto stream = must(cuda_process().open(Device{DeviceType::cuda, 0}));
  std::vector<Duration> outside;
  std::vector<Duration> seen_within;
  std::size_t without = 0;
  for (const TimePoint until = Clock::now() + kFor; Clock::now() < until;
       std::this_thread::sleep_for(kPause)) {
    const TimePoint before = Clock::now();
    const auto event = must(stream->record_with_time());
    while (!must(event->is_reached())) std::this_thread::yield();
    const TimePoint after = Clock::now();
    seen_within.push_back(after - before);
    if (const auto at = event->reached_at()) {
      outside.push_back(std::max({Duration(), before - *at, *at - after}));
    } else {
      ++without;
    }
  }
  if (outside.empty()) {
    std::fprintf(stderr, "none of %zu events has a time\n", without);
    return 1;
  }
  std::ranges::sort(outside);
  std::ranges::sort(seen_within);
  const auto us = [](Duration one) { return std::chrono::duration<double, std::micro>(one).count(); };
  std::printf("figure: a device's times beside the host's | %zu events of 3 s, %zu without a time; ",
              seen_within.size(), without);
  std::printf("the host sees an event within %.1f us (the median), and its time lies outside of that by ",
              us(seen_within[seen_within.size() / 2]));
  std::printf("%.1f us (the median), %.1f us (1 in 100), %.1f us (at worst)\n",
              us(outside[outside.size() / 2]), us(outside[outside.size() * 99 / 100]), us(outside.back()));
  return 0;
}

}  // namespace dabke::test
