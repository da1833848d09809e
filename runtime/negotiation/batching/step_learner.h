// Finds out on the root that a job repeats itself, and which of its tensors should travel together.
//
//   1. A step ends when a slot is ordered that was ordered in it before.
//   2. After three equal steps (the same slots, in whatever order) the last one is cut, in the order in which
//      its tensors became ready, into batches of about `batch_bytes`; the first is an eighth of that, so that
//      the data plane starts early. What cannot be fused ends a batch, and so does a slot that somebody once
//      waited for alone.
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
  /// `batch_bytes` 0: learns nothing.
  explicit StepLearner(std::size_t batch_bytes) : batch_bytes_(batch_bytes) {}

  /// A cached tensor was ordered that was ready on all ranks at `ready_at`.
  void ordered(wire::Slot slot, const RequestRef& request, TimePoint ready_at);
  /// Something was ordered that steps do not repeat.
  void disturbed();
  /// A rank waits for this slot, and has not got its batch together.
  void wanted(wire::Slot slot);

  bool has_learned() const { return learned_; }
  /// What is to be announced: new batches, or none at all when the old ones are over.
  std::optional<std::vector<wire::LearnedBatch>> take_change();

 private:
  struct Seen {
    wire::Slot slot;
    RequestRef request;
    TimePoint ready_at;
  };
  struct Mark {  // what is known of a slot index
    wire::Slot slot = wire::kNoSlot;
    std::uint64_t step = 0;             // the last one that it was ordered in
    wire::Slot wanted = wire::kNoSlot;  // somebody once waited for this one alone
  };
  Mark& mark_of(wire::Slot slot);
  void end_step();
  void forget();
  std::vector<wire::LearnedBatch> cut() const;

  std::size_t batch_bytes_;
  std::vector<Seen> step_;
  std::vector<Mark> marks_;    // by slot index
  std::uint64_t number_ = 2;   // the step's; nothing bears that of the one before the first
  std::size_t repeated_ = 0;   // how many of the step's slots the one before had
  std::size_t last_size_ = 0;  // the size of the step before
  int equal_steps_ = 0;
  bool learned_ = false;
  std::optional<std::vector<wire::LearnedBatch>> change_;
};

}  // namespace dabke::negotiation
