// The place of each rank: its host, and its number there. Pure.
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

/// `num_proc` ranks, filling each host's slots in order; 0 fills every slot. An error when there are too few
/// slots, or more than kMostRanks would run.
Result<std::vector<RankPlacement>> place_ranks(const std::vector<Host>& hosts, int num_proc);

/// The same ranks where some hosts turn out to be one: `names` has the name that counts of each that does not.
std::vector<RankPlacement> with_hosts_merged(std::vector<RankPlacement> placements,
                                             const std::map<std::string, std::string>& names);

}  // namespace dabke::launcher
