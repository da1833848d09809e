// Fills in the entries of a run's batch: inputs, outputs and counts. A rank that has joined gets neutral
// data.
#pragma once

#include <vector>

#include "runtime/lanes/output_verdict.h"
#include "runtime/lanes/run.h"

namespace dabke::lanes {

class BatchBuilder {
 public:
  /// Both arguments outlive it. Neutral data and outputs are in the stream's memory.
  explicit BatchBuilder(Run& run, DeviceStream& stream = host_stream());

  /// Works on another stream of the same device. Called before build().
  void work_on(DeviceStream& stream) { stream_ = &stream; }

  /// True if the ranks must exchange their row counts before outputs can be made (allgather, alltoall).
  bool needs_exchange() const;
  /// Returns the batch of that exchange; valid until build().
  const Batch& exchange_batch();
  /// Makes outputs and counts. Called after the exchange, if there is one.
  Status build();
  /// True if some rank may have no room for some output (allgather, alltoall). Equal on all ranks.
  bool needs_verdict() const;
  /// Returns the batch by which the ranks exchange which outputs lack room. Called after build().
  const Batch& verdict_batch() { return verdict_.batch(run_.batch); }
  /// Called once that batch has run. Removes the tensors that lack room on some rank from the run's batch.
  /// Returns a status for each tensor of the run; empty if all are ok.
  std::vector<Status> apply_verdict();

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(run_.process_set->size()); }
  std::int64_t* counts();
  const TensorView* given_output(const RunTensor& entry) const;
  Status set_input(const RunTensor& entry, BatchEntry& out);
  Status set_output(const RunTensor& entry, BatchEntry& out, Shape shape);
  Status set_aside(std::size_t entry_index, BatchEntry& out);
  Shape output_shape(const RunTensor& entry, std::size_t entry_index, BatchEntry& out);
  std::int64_t received_rows(std::size_t rank, std::size_t entry) const;
  double bytes_of_all_outputs() const;
  std::vector<std::int64_t> send_rows(const RunTensor& entry) const;
  Result<void*> scratch(std::size_t bytes);

  Run& run_;
  DeviceStream* stream_;
  Batch exchange_;
  bool any_joined_ = false;
  double prescale_ = 1;                 // of the call
  std::vector<std::int64_t> sent_;      // exchange: the numbers that this rank sends
  std::vector<std::int64_t> received_;  // exchange: the numbers of all ranks, by rank
  std::vector<std::int64_t> exchange_counts_;
  OutputVerdict verdict_;
  bool any_is_the_callers_ = false;  // some rank has a given output, or an allocator
};

/// Returns the rows of block `index` if `rows` are divided among `ranks`. The first rows % ranks blocks have
/// one more.
std::int64_t scattered_rows(std::int64_t rows, int ranks, int index);

}  // namespace dabke::lanes
