// The process sets that there are. Every rank holds the same table at the same point of the order sequence.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/world.h"

namespace dabke::negotiation {

class ProcessSets {
 public:
  using Ranks = std::shared_ptr<const std::vector<Rank>>;

  /// `everybody`: ranks 0 to size - 1.
  explicit ProcessSets(Ranks everybody);

  /// Null when there is no such set.
  const std::vector<Rank>* ranks_of(ProcessSetId id) const {
    const auto found = sets_.find(id);
    return found == sets_.end() ? nullptr : found->second.get();
  }
  /// The rank's rank within the set; -1 when the set does not exist or does not hold it.
  int set_rank(ProcessSetId id, Rank rank) const { return id == kWorldSet ? rank : set_rank_in(id, rank); }
  bool contains(ProcessSetId id, Rank rank) const { return set_rank(id, rank) >= 0; }
  std::optional<ProcessSetId> find(const std::vector<Rank>& ranks) const;
  std::vector<ProcessSetId> ids() const;
  std::size_t count() const { return sets_.size(); }

  /// `ranks` ascending and unique.
  void add(ProcessSetId id, std::vector<Rank> ranks);
  void remove(ProcessSetId id);
  /// Never used before in this init.
  ProcessSetId next_id() const { return next_id_; }

 private:
  int set_rank_in(ProcessSetId id, Rank rank) const;

  std::map<ProcessSetId, Ranks> sets_;
  ProcessSetId next_id_ = 1;
};

}  // namespace dabke::negotiation
