// The tensors of a batch that lie in registered memory on all ranks, so that it can run on them in place.
//
// Each rank writes for each tensor where it lies in its registered memory, or that it does not, publishes
// that with its arrival, waits for all, and reads what the others have written. So all ranks read the same
// table and decide alike, and a collective on registered memory costs no step for it: that others have come
// had to be known anyway.
//
// Batches of private memory should pay nothing. A batch that had none of it is not asked again at once when
// it comes again (by its kind, dtype, number of tensors and bytes), but after 1, 3, 7, ... and then always 63
// times. All ranks of a set have run the same batches in it, so that too is the same for all of them.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "ops/shm/peer_heaps.h"

namespace dabke::ops {

/// Those tensors of a batch, and where they are on each rank, in this rank's addresses.
struct SharedEntries {
  std::vector<std::size_t> entries;  // ascending indices in the batch
  std::vector<const std::byte*>
      inputs;                       // [place in the set * entries.size() + i]; null where the rank has none
  std::vector<std::byte*> outputs;  // the same; of an allreduce only

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

  /// The least that a batch moves (extent_of) where it is worth while to ask: for less the copies that are saved
  /// are cheaper than a step more.
  static constexpr std::size_t kLeastBytes = std::size_t{64} << 10;

  /// Collective over the members of the batch's set. When it has found some, all ranks have arrived, and
  /// nobody goes on before they publish again. `size_bytes`: what the batch moves.
  Result<SharedEntries> agree(const Batch& batch, std::size_t size_bytes,
                              const std::vector<std::size_t>& members);
  void release(ProcessSetId set) { sets_.erase(set); }

 private:
  /// The place of one tensor in one rank's memory, plus 1; 0: it does not lie there.
  struct Row {
    std::uint64_t input = 0;
    std::uint64_t output = 0;
  };
  struct Habit {
    std::uint8_t pause = 0;    // how many are passed over when there was nothing
    std::uint8_t to_skip = 0;  // that many still
  };
  /// What the ranks of a set know of each other; the same on all of them.
  struct Known {
    std::vector<std::size_t> mapped;  // by place: how much of its memory everybody has mapped
    std::vector<std::size_t> tried;   // or has tried to
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
  // The table of this batch.
  std::size_t entries_ = 0;
  std::vector<Row> rows_;
  std::vector<std::size_t> extents_;  // by place: how long its memory is
};

}  // namespace dabke::ops
