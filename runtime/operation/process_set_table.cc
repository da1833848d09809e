#include "runtime/operation/process_set_table.h"

#include <algorithm>
#include <numeric>

namespace dabke {

ProcessSetTable::ProcessSetTable(Rank rank, int world_size) : rank_(rank) {
  std::vector<Rank> all(static_cast<std::size_t>(world_size));
  std::iota(all.begin(), all.end(), 0);
  add(kWorldSet, all);
}

void ProcessSetTable::add(ProcessSetId id, const std::vector<Rank>& ranks) {
  auto info = std::make_shared<ProcessSetInfo>();
  info->id = id;
  info->ranks = ranks;
  const auto me = std::ranges::find(ranks, rank_);
  info->rank = me == ranks.end() ? -1 : static_cast<int>(me - ranks.begin());
  const std::lock_guard lock(mutex_);
  sets_.insert_or_assign(id, std::move(info));
}

void ProcessSetTable::remove(ProcessSetId id) {
  const std::lock_guard lock(mutex_);
  sets_.erase(id);
}

std::shared_ptr<const ProcessSetInfo> ProcessSetTable::find(ProcessSetId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = sets_.find(id);
  return found == sets_.end() ? nullptr : found->second;
}

std::vector<ProcessSetId> ProcessSetTable::ids() const {
  const std::lock_guard lock(mutex_);
  std::vector<ProcessSetId> out;
  for (const auto& [id, info] : sets_) out.push_back(id);
  return out;
}

}  // namespace dabke
