// Members of a group that are submitted one by one wait here until the group is whole, and are then
// negotiated as one.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/task.h"

namespace dabke {

/// The request that stands for all operations of a unit: the first one's, with every tensor.
RequestRef request_of(Unit& unit);

class GroupCollector {
 public:
  /// The whole group's unit once its last member has come, null before. A member that does not fit the others
  /// (another collective, process set or group size) is refused.
  Result<std::unique_ptr<Unit>> add(OperationRef operation);
  /// Everything incomplete; the collector is empty then.
  std::vector<OperationRef> take_all();

 private:
  std::map<std::pair<ProcessSetId, std::string>, std::vector<OperationRef>> groups_;
};

}  // namespace dabke
