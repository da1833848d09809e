// Members of a group that are submitted one by one wait here until the group is whole, and are then
// negotiated as one.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/lanes/run.h"

namespace dabke::core {

class GroupCollector {
 public:
  /// Whether it fits the members that have come: the same collective, scales and group size, and room for it.
  Status check(const Operation& operation) const;
  /// The whole group's call once its last member has come, null before. It has been checked.
  std::unique_ptr<NegotiatedCall> add(OperationRef operation);
  /// The request that stands for all of a whole group's operations: the first one's, with every tensor.
  static RequestRef request_of(NegotiatedCall& call);
  /// What has come of an incomplete group, which is forgotten.
  std::vector<OperationRef> take(ProcessSetId process_set, const std::string& group);
  /// Hands over everything incomplete; the collector is empty then. Needs no memory.
  template <class Use>
  void give_all(Use use) {
    for (auto& [key, members] : groups_) {
      for (OperationRef& member : members) use(std::move(member));
    }
    groups_.clear();
  }

 private:
  using Key = std::pair<ProcessSetId, std::string>;
  static std::size_t tensors_of(const std::vector<OperationRef>& members);

  std::map<Key, std::vector<OperationRef>> groups_;
};

}  // namespace dabke::core
