// Collectives on memory that all ranks have mapped, with no stage in between.
//
//   allreduce             rank i sums the i-th slice straight from all ranks' inputs and writes the sum to
//                         all their outputs. Each vector of a sum is stored in all its places at once, so in
//                         place each rank's bytes travel from memory and back once.
//   reducescatter         the first half of that.
//   allgather, broadcast  each rank copies to its own output, which may be private.
//
// Sums are made in rank order and rounded as on the way through the stages, so the bits are the same.
#pragma once

#include <vector>

#include "ops/shm/registered_tensors.h"
#include "ops/shm/shm_stores.h"

namespace dabke::ops {

class DirectRun {
 public:
  DirectRun(const Batch& batch, const SharedEntries& shared, const ShmSteps& steps, ShmStores& stores);

  /// This rank's part. All ranks have arrived; what they then have is complete when all have done theirs.
  Status work();

 private:
  Status allreduce();
  Status reducescatter();
  Status allgather();
  Status broadcast();

  /// Reduces `count` elements that lie `skipped` elements into entry number `i`, of all ranks, into outputs_.
  Status reduce(std::size_t i, std::size_t skipped, std::size_t count);
  void reduce_block(std::size_t elements);
  Status copy(std::byte* to, const std::byte* from, std::size_t size_bytes) const;
  /// An error when it was aborted: between blocks, because peers may be waiting for us to let go.
  Status proceed() const { return steps_.is_aborted() ? steps_.aborted() : Status(); }

  const Batch& batch_;
  const SharedEntries& shared_;
  const ShmSteps& steps_;
  ShmStores& stores_;
  const std::size_t ranks_;
  const std::size_t own_;
  const std::size_t element_bytes_;
  const std::size_t block_;          // elements
  std::vector<std::byte*> outputs_;  // the places where the sums of the tensor at hand go
  std::vector<const void*> operands_;
  std::vector<void*> sums_;
  std::vector<std::byte> scaled_;  // a block of each rank, where there is a prescale
};

}  // namespace dabke::ops
