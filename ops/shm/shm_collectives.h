// The collectives in shared memory, directly between the tensors of a batch and the ranks' stages.
//
// All of them run in rounds. In a round each rank copies to its stage what others need, publishes it, waits
// for all, and takes what it needs from the others' stages. Every sum is made in rank order, whatever the
// size, offset, round or number of ranks. So all ranks have the same bits, and runs repeat bit for bit.
//
//   allreduce, small   every rank publishes all its elements and sums all: one wait.
//   allreduce, large   rank i sums the i-th slice of each round in its own stage and publishes again; all
//                      ranks copy the slices out. Two waits; each element is copied in once, summed once and
//                      copied out once.
//   reducescatter      the first half of a large allreduce.
//   all others         copies only.
#pragma once

#include "ops/shm/shm_steps.h"
#include "ops/shm/shm_stores.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/pieces.h"

namespace dabke::ops {

class ShmRun {
 public:
  /// `small_bytes`: the largest allreduce in the small form. `operands` is working memory.
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

  /// Runs rounds with one wait each. `fill(round, stage)` writes this rank's stage, at most `most_bytes` of
  /// it. `take(round)` reads the others' stages.
  template <class Fill, class Take>
  Status rounds(std::size_t count, std::size_t most_bytes, Fill fill, Take take);
  /// Gathers one block of each rank to all, into pieces of the outputs. `mine` is this rank's block.
  Status gather(const std::vector<OutPieces>& blocks, const InPieces& mine);
  /// Copies to a stage, multiplied by the prescale. The ranks that sum could not apply it: each rank has its
  /// own prescale, 1 for the data of a rank that has joined.
  void put(std::byte* stage, const InPieces& from, std::size_t begin, std::size_t count);
  /// Reduces this rank's slice, which lies at byte `offset` of each stage, and applies the postscale. This
  /// rank's own part is read at `begin` of `mine`, unless it had to be scaled. The sum goes to `into`. If
  /// `out` is given, it also goes to the same place of `out`, whose pieces are as long as those of `mine`.
  void reduce_slice(std::byte* into, const InPieces& mine, std::size_t begin, std::size_t count,
                    std::size_t offset, const OutPieces* out = nullptr);
  /// Copies the data that another rank has put into its stage.
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
