// Holds members of a group that are submitted one by one until the group is complete. Then they are
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
  /// Checks that the operation fits the members that have come: the same collective, scales and group size,
  /// and room for it.
  Status check(const Operation& operation) const;
  /// Returns the call of the whole group once its last member has come; null before that. check() has
  /// accepted `operation`.
  std::unique_ptr<NegotiatedCall> add(OperationRef operation);
  /// Returns the request that represents all operations of a whole group: the first one's, with every tensor.
  static RequestRef request_of(NegotiatedCall& call);
  /// Removes an incomplete group, and returns the members that have come.
  std::vector<OperationRef> take(ProcessSetId process_set, const std::string& group);
  /// Hands over every member of an incomplete group, and empties the collector. Needs no memory.
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
