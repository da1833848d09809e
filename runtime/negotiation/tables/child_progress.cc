#include "runtime/negotiation/tables/child_progress.h"

#include <algorithm>

namespace dabke::negotiation {

bool ChildProgress::has_reporters_below(ProcessSetId set) const {
  if (!collector_.is_open(set)) return false;
  for (int reporter = 1; reporter < collector_.reporters(); ++reporter) {
    if (collector_.concerns(set, reporter)) return true;
  }
  return false;
}

void ChildProgress::void_reports(ProcessSetId set, const std::string& key, std::uint64_t until) {
  if (has_reporters_below(set)) voids_.push_back({set, key, until});
}

bool ChildProgress::find_void(ProcessSetId set, const std::string& key, std::uint64_t seen) const {
  return std::ranges::any_of(
      voids_, [&](const Void& one) { return one.set == set && seen < one.until && one.key == key; });
}

/// Returns the last order that was seen by all children that report anything of this set. In a set that has
/// ended nothing counts any more, so ranks that have left the job are never considered.
std::uint64_t ChildProgress::seen_by_all(ProcessSetId set, std::uint64_t last_order) const {
  std::uint64_t by_all = last_order;
  if (!collector_.is_open(set)) return by_all;
  for (int reporter = 1; reporter < collector_.reporters(); ++reporter) {
    if (collector_.concerns(set, reporter))
      by_all = std::min(by_all, seen_[static_cast<std::size_t>(reporter)]);
  }
  return by_all;
}

/// Drops entries whose order has been seen by all children that need them. Called when the reporter has seen
/// the orders up to `seen`.
void ChildProgress::forget(int reporter, std::uint64_t before, std::uint64_t seen, std::uint64_t last_order) {
  if (cache_.count_evicted() != 0) {
    cache_.forget_evicted([&](ProcessSetId set, std::uint64_t oldest) {
      const bool tells = before < oldest && oldest <= seen && collector_.concerns(set, reporter);
      return tells || !collector_.is_open(set) ? seen_by_all(set, last_order) : 0;
    });
  }
  std::erase_if(voids_, [&](const Void& one) { return one.until <= seen_by_all(one.set, last_order); });
}

}  // namespace dabke::negotiation
