// The unit of negotiation: an operation, or the members of a group.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "runtime/operation/operation.h"
#include "runtime/operation/outstanding_calls.h"

namespace dabke {

/// Completes when all of its tensors have run. The part that completes the last of them owns it.
class NegotiatedCall final : public Pooled<NegotiatedCall> {
 public:
  explicit NegotiatedCall(OperationRef single) : single_(std::move(single)) {}
  explicit NegotiatedCall(std::vector<OperationRef> group) : group_(std::move(group)) {}
  ~NegotiatedCall() {
    if (entry != nullptr) OutstandingCalls::remove(entry);
  }

  std::span<OperationRef> operations() { return group_.empty() ? std::span(&single_, 1) : std::span(group_); }
  Operation& first() { return *operations().front(); }
  /// True if a thread sleeps until one of the operations is done, as far as is known now.
  bool is_awaited() {
    return std::ranges::any_of(operations(), [](const OperationRef& one) { return one->is_awaited(); });
  }

  std::size_t tensors_left = 0;  // only the lane uses it once the call is ordered
  Status first_error;
  OutstandingCalls::Entry* entry = nullptr;  // set while the call is in the coordinator's table
  Status refused;                            // all ranks agree on it: the call fails, and the job goes on

 private:
  OperationRef single_;
  std::vector<OperationRef> group_;  // empty for a single operation
};

}  // namespace dabke
