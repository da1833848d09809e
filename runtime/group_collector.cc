#include "runtime/group_collector.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke {

RequestRef request_of(Unit& unit) {
  const Operation& first = unit.first();
  if (first.extras().group.empty()) return first.request;
  auto request = std::make_shared<Request>(*first.request);
  request->name = first.extras().group;
  request->is_group = true;
  for (const OperationRef& member : unit.operations().subspan(1)) {
    const auto& tensors = member->request->tensors;
    request->tensors.append(tensors.begin(), tensors.end());
  }
  return request;
}

Result<std::unique_ptr<Unit>> GroupCollector::add(OperationRef operation) {
  const auto key = std::pair(operation->request->process_set, operation->extras().group);
  auto& members = groups_[key];
  if (!members.empty()) {
    const Operation& first = *members.front();
    const Request& a = *first.request;
    const Request& b = *operation->request;
    const bool alike = a.kind == b.kind && a.op == b.op && a.root == b.root && a.prescale == b.prescale &&
                       a.postscale == b.postscale && first.extras().group_size == operation->extras().group_size;
    if (!alike) {
      return Status(
          Code::invalid_argument,
          fmt::format("'{}' does not fit its group '{}', which began with '{}': all members must have the "
                      "same collective, reduce operation, root, scales and group_size",
                      b.name, operation->extras().group, a.name));
    }
  }
  members.push_back(std::move(operation));
  if (members.size() < members.front()->extras().group_size) return std::unique_ptr<Unit>();
  // Ranks may submit the members in different orders; the group is the same.
  std::ranges::sort(members, {}, [](const OperationRef& op) { return std::string_view(op->request->name); });
  auto unit = std::make_unique<Unit>(std::move(members));
  groups_.erase(key);
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
