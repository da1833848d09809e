// Neighbours whose links have ended, while it is not known yet how their processes have: whoever has started
// a process may know more of its end than that its link is gone.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke::core {

class LostPeers {
 public:
  struct Lost {
    Rank rank;
    Status cause;
    TimePoint until;  // nobody has said how its process has ended by then
  };
  void add(Lost lost) { lost_.push_back(std::move(lost)); }
  /// Takes the one of this rank out; nothing when it is not among them, or no longer.
  std::optional<Lost> take(Rank rank) {
    const auto found = std::ranges::find(lost_, rank, &Lost::rank);
    if (found == lost_.end()) return std::nullopt;
    Lost lost = std::move(*found);
    lost_.erase(found);
    return lost;
  }
  /// The rank for which the time is over; nothing when there is none.
  std::optional<Rank> overdue(TimePoint now) const {
    if (lost_.empty() || now < lost_.front().until) return std::nullopt;
    return lost_.front().rank;
  }
  /// When overdue() has one at the earliest.
  TimePoint deadline() const { return lost_.empty() ? kNever : lost_.front().until; }

 private:
  std::vector<Lost> lost_;  // the oldest first
};

}  // namespace dabke::core
