// Finds out on the root that a job repeats itself, and which of its tensors should travel together.
//
//   1. A step ends when a slot is ordered that was ordered in it before.
//   2. After three equal steps (the same slots, in any order), the last one is cut into batches of about
//      `batch_bytes`, in the order in which its tensors became ready. The first batch is an eighth of that,
//      so that the data plane starts early. A batch ends at a tensor that cannot be fused, and at a slot for
//      which a thread once waited alone.
//   3. A step that differs, or a new signature, ends what was learned, and learning begins again.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

class StepLearner {
 public:
  /// With `batch_bytes` 0 it learns nothing.
  explicit StepLearner(std::size_t batch_bytes) : batch_bytes_(batch_bytes) {}

  /// A cached tensor was ordered. It was ready on all ranks at `ready_at`.
  void ordered(wire::Slot slot, const RequestRef& request, TimePoint ready_at);
  /// Something was ordered that steps do not repeat.
  void disturbed();
  /// A rank waits for this slot, and does not have its batch together.
  void wanted(wire::Slot slot);

  bool has_learned() const { return learned_; }
  /// Returns what to announce: new batches, or none at all if the old ones are over.
  std::optional<std::vector<wire::LearnedBatch>> take_change();

 private:
  struct Seen {
    wire::Slot slot;
    RequestRef request;
    TimePoint ready_at;
  };
  struct Mark {  // of a slot index
    wire::Slot slot = wire::kNoSlot;
    std::uint64_t step = 0;             // the last step in which it was ordered
    wire::Slot wanted = wire::kNoSlot;  // a thread once waited for this slot alone
  };
  Mark& mark_of(wire::Slot slot);
  void end_step();
  void forget();
  std::vector<wire::LearnedBatch> cut() const;

  std::size_t batch_bytes_;
  std::vector<Seen> step_;
  std::vector<Mark> marks_;    // by slot index
  std::uint64_t number_ = 2;   // of the step; no slot has that of the step before the first
  std::size_t repeated_ = 0;   // how many of the step's slots the step before had
  std::size_t last_size_ = 0;  // the size of the step before
  int equal_steps_ = 0;
  bool learned_ = false;
  std::optional<std::vector<wire::LearnedBatch>> change_;
};

}  // namespace dabke::negotiation
