// Sets of moments: what happens at once is counted once.
#pragma once

#include <cstdint>
#include <vector>

namespace dabke::timeline {

struct Interval {
  std::int64_t begin_ns = 0, end_ns = 0;
  bool operator==(const Interval&) const = default;
};

/// In order, with gaps between them, as united() makes them.
using Intervals = std::vector<Interval>;

/// What lies in any of them. Those that are empty, or end before they begin, are of nothing.
Intervals united(Intervals any);
/// What lies in both.
Intervals common(const Intervals& a, const Intervals& b);
/// What lies in `a` and not in `b`.
Intervals without(const Intervals& a, const Intervals& b);
std::int64_t length_ns(const Intervals& intervals);
/// How much of them lies in `window`.
std::int64_t length_within_ns(const Intervals& intervals, const Interval& window);

/// Adds a length to a sum of any number of them. Files may say anything, so the sum ends at the largest number.
void add_ns(std::int64_t& sum, std::int64_t length);

}  // namespace dabke::timeline
