// The collectives in shared memory, straight between the tensors of a batch and the ranks' stages.
//
// All go by rounds. In a round each rank copies to its stage what others need of it, publishes that, waits
// for all, and takes from the others' stages what it needs. Every sum is made in rank order, whatever the
// size, offset, round or number of ranks, so all ranks have the same bits and runs repeat bit for bit.
//
//   allreduce, small   everybody publishes everything and sums everything: one wait.
//   allreduce, large   rank i sums the i-th slice of each round in its own stage and publishes again; all
//                      copy the slices out. Two waits; each element is copied in once, summed once and copied
//                      out once.
//   reducescatter      the first half of that.
//   all others         copies alone.
#pragma once

#include "ops/shm/shm_steps.h"
#include "ops/shm/shm_stores.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/pieces.h"

namespace dabke::ops {

class ShmRun {
 public:
  /// `small_bytes`: up to here an allreduce takes the first form. `operands` is memory to work in.
  ShmRun(const Batch& batch, ShmSteps& steps, ShmStores& stores, std::size_t stage_bytes,
         std::size_t small_bytes, std::vector<const void*>& operands);

  Status run();

 private:
  Status allreduce();
  Status allreduce_small(const InPieces& in, const OutPieces& out);
  Status allreduce_large(const InPieces& in, const OutPieces& out);
  Status allgather();
  Status broadcast();
  Status reducescatter();
  Status alltoall();
  Status barrier();

  /// Rounds of one wait: `fill(round, stage)` writes this rank's stage, no more than `most_bytes` of it,
  /// `take(round)` reads the others'.
  template <class Fill, class Take>
  Status rounds(std::size_t count, std::size_t most_bytes, Fill fill, Take take);
  /// One block of each rank to all, by pieces of the outputs; `mine` is this rank's.
  Status gather(const std::vector<OutPieces>& blocks, const InPieces& mine);
  /// Copies to a stage, multiplied by the prescale. Not left to those who sum: each rank has a prescale of
  /// its own, 1 for data that stands for a rank that has joined.
  void put(std::byte* stage, const InPieces& from, std::size_t begin, std::size_t count);
  /// Reduces this rank's slice, which lies at byte `offset` of each stage; of this rank itself at `begin` of
  /// `mine`, unless that had to be scaled. Applies the postscale. The sum goes to `into` and, where one is
  /// given, to the same place of `out`, whose pieces are as long as those of `mine`.
  void reduce_slice(std::byte* into, const InPieces& mine, std::size_t begin, std::size_t count,
                    std::size_t offset, const OutPieces* out = nullptr);
  /// Copies what another rank has put to its stage.
  void take(const OutPieces& into, std::size_t begin, std::size_t count, const std::byte* from);
  const std::byte* stage_of(std::size_t set_rank) const { return steps_.stage_of(set_rank); }
  std::size_t bytes(std::size_t elements) const { return elements * element_bytes_; }
  bool scales() const { return batch_.prescale != 1; }

  const Batch& batch_;
  ShmSteps& steps_;
  ShmStores& stores_;
  const std::size_t ranks_;
  const std::size_t own_;
  const std::size_t element_bytes_;
  const std::size_t stage_bytes_;
  const std::size_t small_bytes_;
  std::vector<const void*>& operands_;
};

}  // namespace dabke::ops
