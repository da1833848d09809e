#include "launcher/hosts/placement.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

namespace dabke {

Result<std::vector<RankPlacement>> place_ranks(const std::vector<Host>& hosts, int num_proc) {
  int slots = 0;
  for (const Host& host : hosts) slots = add_slots(slots, host.slots);
  const int size = num_proc == 0 ? slots : num_proc;
  if (size > slots) {
    std::string names;
    for (const Host& host : hosts)
      names += fmt::format("{}{}:{}", names.empty() ? "" : ",", host.name, host.slots);
    return Status(
        Code::invalid_argument,
        fmt::format(
            "-np {} asks for more processes than {} has slots ({}): lower -np or give the hosts more slots",
            size, names, slots));
  }
  if (size > kMostRanks) {
    return Status(
        Code::invalid_argument,
        fmt::format("the hosts have {} slots, and one rank would run in each, but a job has {} ranks at "
                    "most: say with -np how many to start",
                    size, kMostRanks));
  }
  std::vector<RankPlacement> placements;
  std::vector<int> hosts_with_local_rank;  // so far: becomes the cross size
  for (const Host& host : hosts) {
    const int local_size = std::min(host.slots, size - static_cast<int>(placements.size()));
    for (int local_rank = 0; local_rank < local_size; ++local_rank) {
      const auto column = static_cast<std::size_t>(local_rank);
      if (hosts_with_local_rank.size() <= column) hosts_with_local_rank.push_back(0);
      placements.push_back({.rank = static_cast<int>(placements.size()),
                            .size = size,
                            .local_rank = local_rank,
                            .local_size = local_size,
                            .cross_rank = hosts_with_local_rank[column]++,
                            .host = host.name});
    }
  }
  for (RankPlacement& placement : placements)
    placement.cross_size = hosts_with_local_rank[static_cast<std::size_t>(placement.local_rank)];
  return placements;
}

Pinning pin_to_cores(const std::vector<int>& cores, int local_size) {
  Pinning pinning;
  const auto ranks = static_cast<std::size_t>(local_size);
  if (ranks > cores.size()) {
    pinning.warning =
        fmt::format("--bind-to core: {} ranks share {} cores, so none is pinned", ranks, cores.size());
    return pinning;
  }
  const std::size_t share = cores.size() / ranks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto first = cores.begin() + static_cast<std::ptrdiff_t>(rank * share);
    pinning.cores.emplace_back(first, first + static_cast<std::ptrdiff_t>(share));
  }
  return pinning;
}

}  // namespace dabke
