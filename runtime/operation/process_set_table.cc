#include "runtime/operation/process_set_table.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "runtime/base/pair_sets.h"

namespace dabke {

ProcessSetTable::ProcessSetTable(Rank rank, int world_size) : rank_(rank), world_size_(world_size) {
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

std::shared_ptr<const ProcessSetInfo> ProcessSetTable::info_of(ProcessSetId id,
                                                               const std::vector<Rank>& ranks) const {
  auto info = std::make_shared<ProcessSetInfo>();
  info->id = id;
  info->ranks = ranks;
  const auto me = std::ranges::find(ranks, rank_);
  info->rank = me == ranks.end() ? -1 : static_cast<int>(me - ranks.begin());
  return info;
}

void ProcessSetTable::add(const FirstSet& set) {
  auto info = info_of(set.id, set.ranks);
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

std::shared_ptr<const ProcessSetInfo> ProcessSetTable::find_or_meet(ProcessSetId id) {
  if (!is_pair_in(id, world_size_)) return find(id);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const ProcessSetInfo>& info = pairs_[id];
  if (info == nullptr) info = info_of(id, members_of_pair(id));
  return info;
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
