// The process sets as training threads see them. The coordinator changes them in the order of the sequence.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/backend/backend.h"

namespace dabke {

class ProcessSetTable {
 public:
  ProcessSetTable(Rank rank, int world_size);

  void add(ProcessSetId id, const std::vector<Rank>& ranks);
  void remove(ProcessSetId id);
  /// Returns null if there is no such set. A set without this rank has rank -1.
  std::shared_ptr<const ProcessSetInfo> find(ProcessSetId id) const;
  std::vector<ProcessSetId> ids() const;

 private:
  Rank rank_;
  mutable std::mutex mutex_;
  std::map<ProcessSetId, std::shared_ptr<const ProcessSetInfo>> sets_;
};

}  // namespace dabke
