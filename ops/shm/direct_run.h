// Collectives on memory that all ranks have mapped, without stages.
//
//   allreduce             rank i sums the i-th slice directly from all ranks' inputs and writes the sum to
//                         all their outputs. Each vector of a sum is stored in all outputs at once. So in
//                         place, each rank's bytes travel from memory and back once.
//   reducescatter         the first half of an allreduce.
//   allgather, broadcast  each rank copies to its own output, which may be private.
//
// Sums are made in rank order, and rounded as in the collectives through the stages, so the bits are the
// same.
#pragma once

#include <vector>

#include "ops/shm/registered_tensors.h"
#include "ops/shm/shm_stores.h"

namespace dabke::ops {

class DirectRun {
 public:
  DirectRun(const Batch& batch, const SharedEntries& shared, const ShmSteps& steps, ShmStores& stores);

  /// Does this rank's part. All ranks must have arrived. The outputs are complete when all ranks have done
  /// their part.
  Status work();

 private:
  Status allreduce();
  Status reducescatter();
  Status allgather();
  Status broadcast();

  /// Reduces `count` elements of entry number `i` of all ranks into outputs_. They begin `skipped` elements
  /// into the entry.
  Status reduce(std::size_t i, std::size_t skipped, std::size_t count);
  void reduce_block(std::size_t elements);
  Status copy(std::byte* to, const std::byte* from, std::size_t size_bytes) const;
  /// Returns an error after an abort. Called between blocks, because peers may wait until this rank leaves
  /// their memory.
  Status proceed() const { return steps_.is_aborted() ? steps_.aborted() : Status(); }

  const Batch& batch_;
  const SharedEntries& shared_;
  const ShmSteps& steps_;
  ShmStores& stores_;
  const std::size_t ranks_;
  const std::size_t own_;
  const std::size_t element_bytes_;
  const std::size_t block_;          // elements
  std::vector<std::byte*> outputs_;  // where the sums of the current tensor go
  std::vector<const void*> operands_;
  std::vector<void*> sums_;
  std::vector<std::byte> scaled_;  // one block for each rank, if there is a prescale
};

}  // namespace dabke::ops
