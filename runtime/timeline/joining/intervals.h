// Sets of moments. Overlapping intervals are counted once.
#pragma once

#include <cstdint>
#include <vector>

namespace dabke::timeline {

struct Interval {
  std::int64_t begin_ns = 0, end_ns = 0;
  bool operator==(const Interval&) const = default;
};

/// Sorted, with gaps between them, as united() returns them.
using Intervals = std::vector<Interval>;

/// The moments that lie in any of the intervals. An interval that is empty, or ends before it begins, is left
/// out.
Intervals united(Intervals any);
/// The moments that lie in both.
Intervals common(const Intervals& a, const Intervals& b);
/// The moments that lie in `a` and not in `b`.
Intervals without(const Intervals& a, const Intervals& b);
std::int64_t length_ns(const Intervals& intervals);
/// The length of the parts that lie in `window`.
std::int64_t length_within_ns(const Intervals& intervals, const Interval& window);

/// Adds a length to a sum. Files may contain any number, so the sum saturates at the largest one.
void add_ns(std::int64_t& sum, std::int64_t length);

}  // namespace dabke::timeline
