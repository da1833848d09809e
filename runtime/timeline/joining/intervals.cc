#include "runtime/timeline/joining/intervals.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace dabke::timeline {

Intervals united(Intervals any) {
  std::erase_if(any, [](const Interval& one) { return one.end_ns <= one.begin_ns; });
  std::ranges::sort(any, {}, &Interval::begin_ns);
  std::size_t kept = 0;
  for (const Interval& one : any) {
    if (kept > 0 && one.begin_ns <= any[kept - 1].end_ns) {
      any[kept - 1].end_ns = std::max(any[kept - 1].end_ns, one.end_ns);
    } else {
      any[kept++] = one;
    }
  }
  any.resize(kept);
  return any;
}

Intervals common(const Intervals& a, const Intervals& b) {
  Intervals both;
  auto left = a.begin(), right = b.begin();
  while (left != a.end() && right != b.end()) {
    const Interval one{std::max(left->begin_ns, right->begin_ns), std::min(left->end_ns, right->end_ns)};
    if (one.begin_ns < one.end_ns) both.push_back(one);
    if (left->end_ns < right->end_ns) {
      ++left;
    } else {
      ++right;
    }
  }
  return both;
}

Intervals without(const Intervals& a, const Intervals& b) {
  Intervals left;
  auto hole = b.begin();
  for (Interval one : a) {
    while (hole != b.end() && hole->end_ns <= one.begin_ns) ++hole;
    for (auto next = hole; next != b.end() && next->begin_ns < one.end_ns; ++next) {
      if (one.begin_ns < next->begin_ns) left.push_back({one.begin_ns, next->begin_ns});
      one.begin_ns = next->end_ns;
    }
    if (one.begin_ns < one.end_ns) left.push_back(one);
  }
  return left;
}

std::int64_t length_ns(const Intervals& intervals) {
  std::int64_t sum = 0;
  for (const Interval& one : intervals) sum += one.end_ns - one.begin_ns;
  return sum;
}

std::int64_t length_within_ns(const Intervals& intervals, const Interval& window) {
  std::int64_t sum = 0;
  auto one = std::ranges::upper_bound(intervals, window.begin_ns, {}, &Interval::end_ns);
  for (; one != intervals.end() && one->begin_ns < window.end_ns; ++one)
    sum += std::min(one->end_ns, window.end_ns) - std::max(one->begin_ns, window.begin_ns);
  return sum;
}

void add_ns(std::int64_t& sum, std::int64_t length) {
  if (__builtin_add_overflow(sum, length, &sum)) sum = std::numeric_limits<std::int64_t>::max();
}

}  // namespace dabke::timeline
