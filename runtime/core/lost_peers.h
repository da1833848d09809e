// Neighbours whose links have ended, until it is known how their processes have ended. The launcher of a
// process may report more about its end than the loss of its link shows.
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
    TimePoint until;  // the time limit for the report of how its process has ended
  };
  void add(Lost lost) { lost_.push_back(std::move(lost)); }
  /// Removes the entry of this rank and returns it; nothing if there is none, or no longer.
  std::optional<Lost> take(Rank rank) {
    const auto found = std::ranges::find(lost_, rank, &Lost::rank);
    if (found == lost_.end()) return std::nullopt;
    Lost lost = std::move(*found);
    lost_.erase(found);
    return lost;
  }
  /// Returns a rank whose time limit is over; nothing if there is none.
  std::optional<Rank> overdue(TimePoint now) const {
    if (lost_.empty() || now < lost_.front().until) return std::nullopt;
    return lost_.front().rank;
  }
  /// The earliest time at which overdue() returns a rank.
  TimePoint deadline() const { return lost_.empty() ? kNever : lost_.front().until; }

 private:
  std::vector<Lost> lost_;  // the oldest first
};

}  // namespace dabke::core
