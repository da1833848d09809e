// The process sets that exist. Every rank has the same table at the same point of the order sequence.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/pair_sets.h"
#include "runtime/base/world.h"

namespace dabke::negotiation {

class ProcessSets {
 public:
  using Ranks = std::shared_ptr<const std::vector<Rank>>;

  /// `everybody` has ranks 0 to size - 1.
  explicit ProcessSets(Ranks everybody);

  /// Returns null if there is no such set.
  const std::vector<Rank>* ranks_of(ProcessSetId id) const {
    const auto found = sets_.find(id);
    return found == sets_.end() ? nullptr : found->second.get();
  }
  /// Returns the rank's index in the set; -1 if the set does not exist, or if the rank is not in it.
  int set_rank(ProcessSetId id, Rank rank) const { return id == kWorldSet ? rank : set_rank_in(id, rank); }
  bool contains(ProcessSetId id, Rank rank) const { return set_rank(id, rank) >= 0; }
  /// Finds a set that was added, so no pair.
  std::optional<ProcessSetId> find(const std::vector<Rank>& ranks) const;
  /// With the pairs that this rank has met.
  std::vector<ProcessSetId> ids() const;
  /// Without them.
  std::vector<ProcessSetId> added_ids() const;
  /// True if there is any other than the world and pairs.
  bool has_added() const { return sets_.size() > 1 && !is_pair(std::next(sets_.begin())->first); }
  std::size_t count() const { return sets_.size(); }

  /// `ranks` are ascending and unique.
  void add(ProcessSetId id, std::vector<Rank> ranks);
  /// Makes the set of a pair. False if this rank has met the pair before.
  bool meet(ProcessSetId pair);
  void remove(ProcessSetId id);
  /// Returns an id that was never used before in this init.
  ProcessSetId next_id() const { return next_id_; }
  /// Uses no id below `id`: the job has used them before.
  void begin_ids_at(ProcessSetId id) { next_id_ = std::max(next_id_, id); }

 private:
  int set_rank_in(ProcessSetId id, Rank rank) const;

  std::map<ProcessSetId, Ranks> sets_;
  ProcessSetId next_id_ = 1;
};

}  // namespace dabke::negotiation
