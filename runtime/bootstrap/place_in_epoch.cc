#include "runtime/bootstrap/place_in_epoch.h"

#include <algorithm>
#include <cstddef>

namespace dabke::bootstrap {

HostPlacement placement_in(const EpochPlan& plan, Rank rank) {
  const EpochMember& self = plan.members[static_cast<std::size_t>(rank)];
  const auto is_across = [&](const EpochMember& one) { return one.local_rank == self.local_rank; };
  const auto ranks_before = plan.members.begin() + rank;
  return {.local_rank = self.local_rank,
          .local_size = static_cast<int>(std::ranges::count(plan.members, self.host, &EpochMember::host)),
          .cross_rank = static_cast<int>(std::count_if(plan.members.begin(), ranks_before, is_across)),
          .cross_size = static_cast<int>(std::ranges::count_if(plan.members, is_across))};
}

Roster roster_of(const EpochPlan& plan) {
  Roster roster{plan.epoch, {}};
  for (const EpochMember& member : plan.members) {
    roster.hosts.push_back(member.host);
    roster.processes.push_back(member.process);
  }
  return roster;
}

}  // namespace dabke::bootstrap
