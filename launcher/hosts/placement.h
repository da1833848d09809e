// The placement of each rank: its host, and its number there. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/hosts/hosts.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

inline constexpr int kMostRanks = 100'000;

struct RankPlacement {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // within the host
  int cross_rank = 0, cross_size = 1;  // among the hosts that have this local rank
  std::string host;
  friend bool operator==(const RankPlacement&, const RankPlacement&) = default;
};

/// Places `num_proc` ranks and fills each host's slots in order; 0 fills every slot. Fails if there are too
/// few slots, or if more than kMostRanks would run.
Result<std::vector<RankPlacement>> place_ranks(const std::vector<Host>& hosts, int num_proc);

/// Returns the same ranks after some hosts have turned out to be one. `names` maps each name that is dropped
/// to the name that stays.
std::vector<RankPlacement> with_hosts_merged(std::vector<RankPlacement> placements,
                                             const std::map<std::string, std::string>& names);

}  // namespace dabke::launcher
