#include "runtime/negotiation/tables/process_sets.h"

#include <algorithm>

#include "runtime/base/pair_sets.h"

namespace dabke::negotiation {

ProcessSets::ProcessSets(Ranks everybody) { sets_.emplace(kWorldSet, std::move(everybody)); }

int ProcessSets::set_rank_in(ProcessSetId id, Rank rank) const {
  const auto* ranks = ranks_of(id);
  if (ranks == nullptr) return -1;
  const auto at = std::ranges::lower_bound(*ranks, rank);
  return at != ranks->end() && *at == rank ? static_cast<int>(at - ranks->begin()) : -1;
}

std::optional<ProcessSetId> ProcessSets::find(const std::vector<Rank>& ranks) const {
  for (const auto& [id, members] : sets_) {
    if (!is_pair(id) && *members == ranks) return id;
  }
  return std::nullopt;
}

std::vector<ProcessSetId> ProcessSets::ids() const {
  std::vector<ProcessSetId> out;
  for (const auto& [id, members] : sets_) out.push_back(id);
  return out;
}

std::vector<ProcessSetId> ProcessSets::added_ids() const {
  std::vector<ProcessSetId> out = ids();
  std::erase_if(out, is_pair);
  return out;
}

void ProcessSets::add(ProcessSetId id, std::vector<Rank> ranks) {
  sets_.insert_or_assign(id, std::make_shared<const std::vector<Rank>>(std::move(ranks)));
  next_id_ = std::max(next_id_, id + 1);
}

bool ProcessSets::meet(ProcessSetId pair) {
  return sets_.try_emplace(pair, std::make_shared<const std::vector<Rank>>(members_of_pair(pair))).second;
}

void ProcessSets::remove(ProcessSetId id) { sets_.erase(id); }

}  // namespace dabke::negotiation
