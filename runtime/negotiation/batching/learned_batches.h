// What a rank does with the batches that the root has learned: it reports a batch's tensors together.
//
// The first of a batch to become ready here is kept back until the last is, or until the batch's time is
// over, or somebody wants one of them. From then on until all of the batch have been ready once, the others
// are not kept back. So nothing depends on the guess being right. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

class LearnedBatches {
 public:
  /// Returns what was kept back under the old ones.
  std::vector<wire::Slot> learn(const std::vector<wire::LearnedBatch>& batches);
  bool any() const { return !batches_.empty(); }

  /// `batch`: counted from 1. Returns what is to be reported now, in the order of the batch.
  std::vector<wire::Slot> ready(std::uint32_t batch, wire::Slot slot, TimePoint now);
  /// What was kept back too long.
  std::vector<wire::Slot> overdue(TimePoint now);
  std::vector<wire::Slot> release(std::uint32_t batch);
  std::vector<wire::Slot> release_all();
  TimePoint next_deadline() const { return next_deadline_; }

 private:
  struct Batch {
    std::vector<wire::Slot> slots;
    Duration hold{};
    std::vector<wire::Slot> held;
    std::size_t been_ready = 0;  // how many of `slots`, this time round
    bool loose = false;          // given up this time round
    TimePoint deadline = kNever;
  };
  std::vector<wire::Slot> release(Batch& batch);
  void find_next_deadline();

  std::vector<Batch> batches_;
  TimePoint next_deadline_ = kNever;
};

}  // namespace dabke::negotiation
