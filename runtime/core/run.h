// What the coordinator hands to a lane: a batch, the calls whose tensors are in it, and what they need until it has ended.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/core/operation.h"
#include "runtime/core/outstanding_units.h"

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

/// A tensor of a run, and who is told what becomes of it.
struct RunTensor {
  Operation* operation = nullptr;  // null on a rank that has joined: neutral data
  std::size_t index = 0;           // the tensor's within the operation
  Unit* unit = nullptr;
  const TensorSpec* tensor = nullptr;  // this rank's own; of the operation or one of the run's requests
};

/// One batch on its way, with all that must live until it has ended.
struct Run {
  /// Memory of its own for inputs and outputs: neutral data, scaled inputs.
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  Batch batch;  // what runs, from the beginning; its entries are BatchBuilder's to fill in
  std::shared_ptr<const ProcessSetInfo> process_set;
  std::shared_ptr<Timeline> timeline;
  std::vector<Timeline::TensorId> timeline_ids;  // the tensors'; empty when the timeline is off
  std::vector<RequestRef> requests;              // those of tensors without an operation
  std::vector<RunTensor> tensors;                // none: the set was removed, drop what belongs to it
  std::vector<std::unique_ptr<void, Free>> scratch;
  std::vector<std::unique_ptr<std::int64_t[]>> counts;
};

}  // namespace dabke
