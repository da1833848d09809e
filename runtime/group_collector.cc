#include "runtime/group_collector.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke {

Request request_of(const Unit& unit) {
  Request request = unit.operations.front()->request;
  if (!unit.operations.front()->group.empty()) request.name = unit.operations.front()->group;
  for (std::size_t i = 1; i < unit.operations.size(); ++i) {
    const Request& member = unit.operations[i]->request;
    request.tensors.insert(request.tensors.end(), member.tensors.begin(), member.tensors.end());
  }
  return request;
}

Result<std::unique_ptr<Unit>> GroupCollector::add(OperationRef operation) {
  const auto key = std::pair(operation->request.process_set, operation->group);
  auto& members = groups_[key];
  if (!members.empty()) {
    const Operation& first = *members.front();
    const Request& a = first.request;
    const Request& b = operation->request;
    const bool alike = a.kind == b.kind && a.op == b.op && a.root == b.root && a.prescale == b.prescale &&
                       a.postscale == b.postscale && first.group_size == operation->group_size;
    if (!alike) {
      return Status(
          Code::invalid_argument,
          fmt::format("'{}' does not fit its group '{}', which began with '{}': all members must have the "
                      "same collective, reduce operation, root, scales and group_size",
                      b.name, operation->group, a.name));
    }
  }
  members.push_back(std::move(operation));
  if (members.size() < members.front()->group_size) return std::unique_ptr<Unit>();
  auto unit = std::make_unique<Unit>();
  unit->operations = std::move(members);
  groups_.erase(key);
  // Ranks may submit the members in different orders; the group is the same.
  std::ranges::sort(unit->operations, {},
                    [](const OperationRef& op) { return std::string_view(op->request.name); });
  return unit;
}

std::vector<OperationRef> GroupCollector::take_all() {
  std::vector<OperationRef> out;
  for (auto& [key, members] : groups_) {
    for (OperationRef& member : members) out.push_back(std::move(member));
  }
  groups_.clear();
  return out;
}

}  // namespace dabke
