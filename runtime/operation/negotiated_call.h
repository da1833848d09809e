// What is negotiated as one: an operation, or the members of a group.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "runtime/operation/operation.h"
#include "runtime/operation/outstanding_calls.h"

namespace dabke {

/// Completes when all of its tensors have run. Owned by whoever completes it last.
class NegotiatedCall final : public Pooled<NegotiatedCall> {
 public:
  explicit NegotiatedCall(OperationRef single) : single_(std::move(single)) {}
  explicit NegotiatedCall(std::vector<OperationRef> group) : group_(std::move(group)) {}
  ~NegotiatedCall() {
    if (entry != nullptr) OutstandingCalls::remove(entry);
  }

  std::span<OperationRef> operations() { return group_.empty() ? std::span(&single_, 1) : std::span(group_); }
  Operation& first() { return *operations().front(); }
  /// Whether a thread sleeps until one of them is done, as far as is known now.
  bool is_awaited() {
    return std::ranges::any_of(operations(), [](const OperationRef& one) { return one->is_awaited(); });
  }

  std::size_t tensors_left = 0;  // touched by the lane alone once ordered
  Status first_error;
  OutstandingCalls::Entry* entry = nullptr;  // while it is in the coordinator's table
  Status refused;                            // agreed on by all ranks: it fails, and the job goes on

 private:
  OperationRef single_;
  std::vector<OperationRef> group_;  // empty: the single one
};

}  // namespace dabke
