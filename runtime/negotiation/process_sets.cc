#include "runtime/negotiation/process_sets.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace dabke {

ProcessSets::ProcessSets(int world_size) {
  std::vector<Rank> all(static_cast<std::size_t>(world_size));
  std::iota(all.begin(), all.end(), 0);
  sets_.emplace(kWorldSet, std::move(all));
}

const std::vector<Rank>* ProcessSets::ranks_of(ProcessSetId id) const {
  const auto found = sets_.find(id);
  return found == sets_.end() ? nullptr : &found->second;
}

int ProcessSets::index_in(ProcessSetId id, Rank rank) const {
  const auto* ranks = ranks_of(id);
  if (ranks == nullptr) return -1;
  const auto at = std::ranges::lower_bound(*ranks, rank);
  return at != ranks->end() && *at == rank ? static_cast<int>(at - ranks->begin()) : -1;
}

std::optional<ProcessSetId> ProcessSets::find(const std::vector<Rank>& ranks) const {
  for (const auto& [id, members] : sets_) {
    if (members == ranks) return id;
  }
  return std::nullopt;
}

std::vector<ProcessSetId> ProcessSets::ids() const {
  std::vector<ProcessSetId> out;
  for (const auto& [id, members] : sets_) out.push_back(id);
  return out;
}

void ProcessSets::add(ProcessSetId id, std::vector<Rank> ranks) {
  sets_.insert_or_assign(id, std::move(ranks));
  next_id_ = std::max(next_id_, id + 1);
}

void ProcessSets::remove(ProcessSetId id) { sets_.erase(id); }

std::string ranks_to_string(const std::vector<Rank>& ranks) {
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", ranks[i]);
    if (last > i) out += fmt::format("{}{}", last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace dabke
