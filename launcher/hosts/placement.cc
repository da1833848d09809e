#include "launcher/hosts/placement.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

namespace dabke::launcher {
namespace {

/// Sets the numbers from rank and host. A host's ranks need not be consecutive.
void number_within_hosts(std::vector<RankPlacement>& placements) {
  std::map<std::string_view, std::size_t> numbers;
  std::vector<std::vector<RankPlacement*>> hosts;  // in the order of their first ranks
  for (RankPlacement& placement : placements) {
    const std::size_t number = numbers.try_emplace(placement.host, hosts.size()).first->second;
    if (number == hosts.size()) hosts.emplace_back();
    hosts[number].push_back(&placement);
  }
  std::vector<int> with_local_rank;  // number of hosts so far
  for (const auto& ranks : hosts) {
    with_local_rank.resize(std::max(with_local_rank.size(), ranks.size()));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      ranks[i]->local_rank = static_cast<int>(i);
      ranks[i]->local_size = static_cast<int>(ranks.size());
      ranks[i]->cross_rank = with_local_rank[i]++;
    }
  }
  for (RankPlacement& placement : placements)
    placement.cross_size = with_local_rank[static_cast<std::size_t>(placement.local_rank)];
}

}  // namespace

Result<std::vector<RankPlacement>> place_ranks(const std::vector<Host>& hosts, int num_proc) {
  int slots = 0;
  for (const Host& host : hosts) slots = add_slots(slots, host.slots);
  const int size = num_proc == 0 ? slots : num_proc;
  if (size > slots) {
    constexpr std::size_t kMostNamed = 16;
    std::string names;
    for (std::size_t i = 0; i < std::min(hosts.size(), kMostNamed); ++i)
      names += fmt::format("{}{}:{}", i == 0 ? "" : ",", hosts[i].name, hosts[i].slots);
    if (hosts.size() > kMostNamed) names += fmt::format(" and {} more", hosts.size() - kMostNamed);
    return Status(
        Code::invalid_argument,
        fmt::format(
            "-np {} asks for more processes than {} has slots ({}): lower -np or give the hosts more slots",
            size, names, slots));
  }
  if (size > kMostRanks) {
    return Status(
        Code::invalid_argument,
        fmt::format("the hosts have {} slots, but a job has at most {} ranks: give their number with -np",
                    size, kMostRanks));
  }
  std::vector<RankPlacement> placements;
  for (const Host& host : hosts) {
    const int local_size = std::min(host.slots, size - static_cast<int>(placements.size()));
    for (int i = 0; i < local_size; ++i)
      placements.push_back({.rank = static_cast<int>(placements.size()), .size = size, .host = host.name});
  }
  number_within_hosts(placements);
  return placements;
}

std::vector<RankPlacement> with_hosts_merged(std::vector<RankPlacement> placements,
                                             const std::map<std::string, std::string>& names) {
  for (RankPlacement& placement : placements) {
    if (const auto name = names.find(placement.host); name != names.end()) placement.host = name->second;
  }
  number_within_hosts(placements);
  return placements;
}

}  // namespace dabke::launcher
