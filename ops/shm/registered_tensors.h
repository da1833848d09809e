// The tensors of a batch that lie in registered memory on all ranks, so that the batch can run on them in
// place.
//
// Each rank writes, for each tensor, its place in the rank's registered memory, or that it is not there. The
// rank publishes that with its arrival, waits for all, and reads the others' tables. So all ranks read the
// same table and come to the same decision. On registered memory this costs no extra step: each rank has to
// wait for the others' arrival anyway.
//
// Batches of private memory should cost nothing extra. Batches count as equal if they agree in kind, dtype,
// number of tensors and bytes. After a batch without registered memory, the next 1, 3, 7, ... equal batches
// are not checked, at most 63. All ranks of a set have run the same batches in it, so they skip the same
// ones.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "ops/shm/peer_heaps.h"

namespace dabke::ops {

/// The registered tensors of a batch, and their addresses on each rank, in this rank's address space.
struct SharedEntries {
  std::vector<std::size_t> entries;      // ascending indices in the batch
  std::vector<const std::byte*> inputs;  // [set rank * entries.size() + i]; null if the rank has none
  std::vector<std::byte*> outputs;       // the same; only for an allreduce

  const std::byte* input(std::size_t set_rank, std::size_t i) const {
    return inputs[set_rank * entries.size() + i];
  }
  std::byte* output(std::size_t set_rank, std::size_t i) const {
    return outputs[set_rank * entries.size() + i];
  }
};

class RegisteredTensors {
 public:
  RegisteredTensors(ShmDomain& domain, ShmSteps& steps, PeerHeaps& heaps)
      : domain_(domain), steps_(steps), heaps_(heaps) {}

  /// The fewest bytes of a batch (extent_of) for which the check pays off. Below that, the copies that are
  /// saved cost less than one more step.
  static constexpr std::size_t kLeastBytes = std::size_t{64} << 10;

  /// Returns the registered tensors of the batch. Collective over the members of the batch's set. If it finds
  /// some, all ranks have arrived, and no rank goes on before they publish again. `size_bytes` is the number
  /// of bytes that the batch moves.
  Result<SharedEntries> agree(const Batch& batch, std::size_t size_bytes,
                              const std::vector<std::size_t>& members);
  void release(ProcessSetId set) { sets_.erase(set); }

 private:
  /// The offset of one tensor in one rank's memory, plus 1; 0 if it does not lie there.
  struct Row {
    std::uint64_t input = 0;
    std::uint64_t output = 0;
  };
  struct Habit {
    std::uint8_t pause = 0;    // batches to skip after one without registered memory
    std::uint8_t to_skip = 0;  // batches still to skip
  };
  /// The state that the ranks of a set have of each other; equal on all of them.
  struct Known {
    std::vector<std::size_t> mapped;  // by set rank: the bytes of its memory that all have mapped
    std::vector<std::size_t> tried;   // by set rank: the bytes that all have tried to map
    std::array<Habit, 64> habits;
  };

  bool can_ask(const Batch& batch, std::size_t size_bytes) const;
  static std::size_t key_of(const Batch& batch, std::size_t size_bytes);
  Row row_of(const Batch& batch, const BatchEntry& entry) const;
  Status exchange(const Batch& batch, std::size_t ranks);
  bool is_shared(const Batch& batch, std::size_t entry) const;
  Status reach(const Batch& batch, const std::vector<std::size_t>& members,
               const std::vector<std::size_t>& entries, Known& known);
  void collect(const Batch& batch, const std::vector<std::size_t>& members, SharedEntries& shared) const;
  const Row& row(std::size_t set_rank, std::size_t entry) const { return rows_[set_rank * entries_ + entry]; }

  ShmDomain& domain_;
  ShmSteps& steps_;
  PeerHeaps& heaps_;
  std::map<ProcessSetId, Known> sets_;
  // The table of the current batch.
  std::size_t entries_ = 0;
  std::vector<Row> rows_;
  std::vector<std::size_t> extents_;  // by set rank: the extent of its memory
};

}  // namespace dabke::ops
