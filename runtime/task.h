// What the coordinator hands to a lane: tensors that run as one batch, and whom to tell.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "ops/collective.h"
#include "runtime/operation.h"
#include "runtime/outstanding_units.h"

namespace dabke {

/// Operations that are negotiated as one: a single one, or the members of a group. Completes when all of its
/// tensors have run. Owned by whoever completes it last.
class Unit final : public Pooled<Unit> {
 public:
  explicit Unit(OperationRef single) : single_(std::move(single)) {}
  ~Unit() {
    if (entry != nullptr) OutstandingUnits::remove(entry);
  }
  explicit Unit(std::vector<OperationRef> group) : group_(std::move(group)) {}

  std::span<OperationRef> operations() { return group_.empty() ? std::span(&single_, 1) : std::span(group_); }
  Operation& first() { return *operations().front(); }
  /// Whether a thread sleeps until one of them is done, as far as is known now.
  bool is_awaited() {
    return std::ranges::any_of(operations(), [](const OperationRef& one) { return one->is_awaited(); });
  }

  std::size_t tensors_left = 0;  // touched by the lane alone once ordered
  Status first_error;
  OutstandingUnits::Entry* entry = nullptr;  // while it is in the coordinator's list
  Status refused;                            // agreed on by all ranks: it fails, and the job goes on

 private:
  OperationRef single_;
  std::vector<OperationRef> group_;  // empty: the single one
};

struct TaskEntry {
  Operation* operation = nullptr;  // null on a rank that has joined: neutral data
  std::size_t index = 0;           // the tensor's within the operation
  Unit* unit = nullptr;
  const TensorSpec* tensor = nullptr;  // this rank's own; of the operation or one of the task's requests
};

struct Task {
  std::uint64_t order = 0;
  CollectiveKind kind = CollectiveKind::allreduce;
  ReduceOp op = ReduceOp::sum;  // never average
  DType dtype = DType::f32;
  int root = 0;  // within the set
  double prescale = 1;
  double postscale = 1;
  std::uint32_t divisor = 1;  // how many ranks contributed to an average
  Compression compression = Compression::none;
  std::shared_ptr<const ProcessSetInfo> process_set;
  std::vector<RequestRef> requests;  // those of entries without an operation
  std::vector<TaskEntry> entries;    // none: the set was removed, drop what belongs to it
  std::shared_ptr<Timeline> timeline;
  std::vector<Timeline::TensorId> timeline_ids;
};

}  // namespace dabke
