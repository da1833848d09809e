// The process sets as training threads see them. The coordinator changes them in the order of the sequence.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/base/status.h"
#include "runtime/call/process_set_list.h"

namespace dabke {

class ProcessSetTable {
 public:
  ProcessSetTable(Rank rank, int world_size);

  /// Adds the sets with which an epoch begins, and notes those that were lost. Called once.
  void begin(const FirstSets& first);
  void add(const FirstSet& set);
  void remove(ProcessSetId id);
  /// Returns null if there is no such set. A set without this rank has rank -1.
  std::shared_ptr<const ProcessSetInfo> find(ProcessSetId id) const;
  /// The same, but makes the set of a pair of ranks when it is first asked for.
  std::shared_ptr<const ProcessSetInfo> find_or_meet(ProcessSetId id);
  std::vector<ProcessSetId> ids() const;
  /// The error for a set that find() does not return.
  Status missing(ProcessSetId id) const;
  /// The sets besides the world, for the next epoch.
  FirstSets all() const;

 private:
  std::shared_ptr<const ProcessSetInfo> info_of(ProcessSetId id, const std::vector<Rank>& ranks) const;

  Rank rank_;
  int world_size_;
  mutable std::mutex mutex_;
  struct Entry {
    std::shared_ptr<const ProcessSetInfo> info;
    bool is_among_members = false;
  };
  std::map<ProcessSetId, Entry> sets_;
  std::map<ProcessSetId, std::shared_ptr<const ProcessSetInfo>> pairs_;  // those that this rank has met
  std::map<ProcessSetId, std::string> lost_;                             // the reason
  ProcessSetId next_id_ = 1;
};

}  // namespace dabke
