#include "runtime/operation/process_set_table.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace dabke {

ProcessSetTable::ProcessSetTable(Rank rank, int world_size) : rank_(rank) {
  std::vector<Rank> all(static_cast<std::size_t>(world_size));
  std::iota(all.begin(), all.end(), 0);
  add({kWorldSet, std::move(all)});
}

void ProcessSetTable::begin(const FirstSets& first) {
  for (const FirstSet& set : first.sets) add(set);
  const std::lock_guard lock(mutex_);
  lost_ = first.lost;
  next_id_ = std::max(next_id_, first.next_id);
}

void ProcessSetTable::add(const FirstSet& set) {
  auto info = std::make_shared<ProcessSetInfo>();
  info->id = set.id;
  info->ranks = set.ranks;
  const auto me = std::ranges::find(set.ranks, rank_);
  info->rank = me == set.ranks.end() ? -1 : static_cast<int>(me - set.ranks.begin());
  const std::lock_guard lock(mutex_);
  sets_.insert_or_assign(set.id, Entry{std::move(info), set.is_among_members});
  next_id_ = std::max(next_id_, set.id + 1);
}

void ProcessSetTable::remove(ProcessSetId id) {
  const std::lock_guard lock(mutex_);
  sets_.erase(id);
}

std::shared_ptr<const ProcessSetInfo> ProcessSetTable::find(ProcessSetId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = sets_.find(id);
  return found == sets_.end() ? nullptr : found->second.info;
}

std::vector<ProcessSetId> ProcessSetTable::ids() const {
  const std::lock_guard lock(mutex_);
  std::vector<ProcessSetId> out;
  for (const auto& [id, entry] : sets_) out.push_back(id);
  return out;
}

Status ProcessSetTable::missing(ProcessSetId id) const {
  const std::lock_guard lock(mutex_);
  const auto lost = lost_.find(id);
  return {Code::unknown_process_set,
          lost == lost_.end() ? fmt::format("process set {} does not exist", id) : lost->second};
}

FirstSets ProcessSetTable::all() const {
  const std::lock_guard lock(mutex_);
  FirstSets out{{}, lost_, next_id_};
  for (const auto& [id, entry] : sets_) {
    if (id != kWorldSet) out.sets.push_back({id, entry.info->ranks, entry.is_among_members});
  }
  return out;
}

}  // namespace dabke
