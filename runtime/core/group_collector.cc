#include "runtime/core/group_collector.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/core/submit_check.h"

namespace dabke::core {

std::size_t GroupCollector::tensors_of(const std::vector<OperationRef>& members) {
  std::size_t tensors = 0;
  for (const OperationRef& member : members) tensors += member->request->tensors.size();
  return tensors;
}

Status GroupCollector::check(const Operation& operation) const {
  const Request& b = *operation.request;
  const std::string& group = operation.extras().group;
  const std::uint32_t size = operation.extras().group_size;
  const auto found = groups_.find({b.process_set, group});
  const std::size_t before = found == groups_.end() ? 0 : tensors_of(found->second);
  if (before + b.tensors.size() > size) {
    return {Code::invalid_argument,
            fmt::format("'{}' is one too many for its group '{}': group_size is {}, but it would make {} "
                        "tensors; group_size must count them all",
                        b.name, group, size, before + b.tensors.size())};
  }
  if (before == 0) return {};
  const Operation& first = *found->second.front();
  const Request& a = *first.request;
  if (!a.refused.is_ok() || !b.refused.is_ok()) return {};  // the whole group fails, for that reason
  const std::string_view unlike =
      first.extras().group_size == size ? difference(static_cast<const CallSpec&>(a), b) : "group_size";
  if (unlike.empty()) return {};
  return {Code::invalid_argument, fmt::format("'{}' does not fit its group '{}', which began with '{}': they "
                                              "differ in the {}, which must be the same for all members",
                                              b.name, group, a.name, unlike)};
}

std::unique_ptr<NegotiatedCall> GroupCollector::add(OperationRef operation) {
  const Key key(operation->request->process_set, operation->extras().group);
  auto& members = groups_[key];
  members.push_back(std::move(operation));
  if (tensors_of(members) < members.front()->extras().group_size) return nullptr;
  // Ranks may submit the members in different orders; the group is the same.
  std::ranges::sort(members, {}, [](const OperationRef& op) { return std::string_view(op->request->name); });
  auto call = std::make_unique<NegotiatedCall>(std::move(members));
  groups_.erase(key);
  return call;
}

RequestRef GroupCollector::request_of(NegotiatedCall& call) {
  const Operation& first = call.first();
  auto request = std::make_shared<Request>(*first.request);
  request->name = first.extras().group;
  request->is_group = true;
  for (const OperationRef& member : call.operations().subspan(1)) {
    const auto& tensors = member->request->tensors;
    request->tensors.append(tensors.begin(), tensors.end());
    if (request->refused.is_ok()) request->refused = member->request->refused;
  }
  if (request->refused.is_ok()) request->refused = check_outputs_apart(call.operations());
  return request;
}

std::vector<OperationRef> GroupCollector::take(ProcessSetId process_set, const std::string& group) {
  auto node = groups_.extract({process_set, group});
  return node.empty() ? std::vector<OperationRef>() : std::move(node.mapped());
}

}  // namespace dabke::core
