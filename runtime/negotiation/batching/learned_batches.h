// A rank's use of the batches that the root has learned: it reports a batch's tensors together.
//
// The first tensor of a batch that becomes ready here is kept back until the last one is. It is reported
// earlier when the batch's time is over, or when a thread waits for one of the tensors. Then the others are
// not kept back either, until all of the batch have been ready once. So nothing depends on a right guess.
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

class LearnedBatches {
 public:
  /// Replaces the batches. Returns the slots that were kept back for the old ones.
  std::vector<wire::Slot> learn(const std::vector<wire::LearnedBatch>& batches);
  bool any() const { return !batches_.empty(); }

  /// `batch` counts from 1. Returns the slots to report now, in the order of the batch.
  std::vector<wire::Slot> ready(std::uint32_t batch, wire::Slot slot, TimePoint now);
  /// Returns the slots that were kept back too long.
  std::vector<wire::Slot> overdue(TimePoint now);
  std::vector<wire::Slot> release(std::uint32_t batch);
  std::vector<wire::Slot> release_all();
  TimePoint next_deadline() const { return next_deadline_; }

 private:
  struct Batch {
    std::vector<wire::Slot> slots;
    Duration hold{};
    std::vector<wire::Slot> held;
    std::size_t been_ready = 0;  // how many of `slots`, in this round
    bool loose = false;          // given up in this round
    TimePoint deadline = kNever;
  };
  std::vector<wire::Slot> release(Batch& batch);
  void find_next_deadline();

  std::vector<Batch> batches_;
  TimePoint next_deadline_ = kNever;
};

}  // namespace dabke::negotiation
