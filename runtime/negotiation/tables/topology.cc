#include "runtime/negotiation/tables/topology.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "runtime/call/process_set_list.h"

namespace dabke::negotiation {
namespace {

std::vector<std::vector<Rank>> ranks_by_host(int size, const std::vector<std::string>& hosts) {
  std::map<std::string, std::size_t> index;
  std::vector<std::vector<Rank>> groups;
  for (Rank rank = 0; rank < size; ++rank) {
    const auto [entry, fresh] = index.try_emplace(
        hosts.empty() ? std::string() : hosts[static_cast<std::size_t>(rank)], groups.size());
    if (fresh) groups.emplace_back();
    groups[entry->second].push_back(rank);
  }
  return groups;
}

}  // namespace

Topology::Topology(int size, std::vector<std::string> hosts, int radix)
    : hosts_(std::move(hosts)), parents_(at(size), -1), children_(at(size)), sizes_(at(size), 1) {
  if (radix == 0) {
    std::fill(parents_.begin() + 1, parents_.end(), 0);
  } else {
    const auto groups = ranks_by_host(size, hosts_);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto& local = groups[g];
      if (g > 0) parents_[at(local.front())] = groups[(g - 1) / static_cast<std::size_t>(radix)].front();
      for (std::size_t i = 1; i < local.size(); ++i) parents_[at(local[i])] = local[(i - 1) / kLocalRadix];
    }
  }
  for (Rank rank = 1; rank < size; ++rank) children_[at(parents_[at(rank)])].push_back(rank);
  for (Rank rank = 0; rank < size; ++rank) {
    for (Rank up = parent(rank); up >= 0; up = parent(up)) ++sizes_[at(up)];
  }
  std::vector<Rank> everybody(at(size));
  std::iota(everybody.begin(), everybody.end(), 0);
  everybody_ = std::make_shared<const std::vector<Rank>>(std::move(everybody));
}

bool Topology::is_below(Rank rank, Rank above) const {
  for (Rank up = parent(rank); up >= 0; up = parent(up)) {
    if (up == above) return true;
  }
  return false;
}

std::vector<Rank> Topology::subtree(Rank above) const {
  if (above == 0) return *everybody_;
  std::vector<Rank> found{above};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& below = children(found[i]);
    found.insert(found.end(), below.begin(), below.end());
  }
  std::ranges::sort(found);
  return found;
}

std::vector<Rank> Topology::neighbours(Rank rank) const {
  std::vector<Rank> all = children(rank);
  if (parent(rank) >= 0) all.insert(all.begin(), parent(rank));
  return all;
}

int Topology::depth() const {
  int deepest = 0;
  for (Rank rank = 0; rank < size(); ++rank) {
    int hops = 0;
    for (Rank up = parent(rank); up >= 0; up = parent(up)) ++hops;
    deepest = std::max(deepest, hops);
  }
  return deepest;
}

std::string Topology::name(Rank rank) const { return name_of_rank(rank, hosts_); }

std::string Topology::names(const std::vector<Rank>& ranks) const {
  return ranks.size() == 1 ? name(ranks.front()) : "ranks " + ranks_to_string(ranks);
}

}  // namespace dabke::negotiation
