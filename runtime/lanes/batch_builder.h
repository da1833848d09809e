// Fills in the entries of a run's batch: inputs, outputs and counts, with neutral data where this rank has joined.
#pragma once

#include <vector>

#include "runtime/lanes/output_verdict.h"
#include "runtime/lanes/run.h"

namespace dabke::lanes {

class BatchBuilder {
 public:
  /// Neutral data and outputs are in the stream's memory. Both outlive it.
  explicit BatchBuilder(Run& run, DeviceStream& stream = host_stream());

  /// On another stream of the same device; before build().
  void work_on(DeviceStream& stream) { stream_ = &stream; }

  /// Whether the ranks must tell one another their row counts before outputs can be made (allgather,
  /// alltoall).
  bool needs_exchange() const;
  /// The batch of that exchange; valid until build().
  const Batch& exchange_batch();
  /// Outputs and counts; after the exchange, where there is one.
  Status build();
  /// Whether some rank may have no room for some output (allgather, alltoall); the same on all ranks.
  bool needs_verdict() const;
  /// The batch by which they tell each other; after build().
  const Batch& verdict_batch() { return verdict_.batch(run_.batch); }
  /// Called once that has run: the batch is without the tensors that lack room somewhere. What has become
  /// of each tensor of the run; empty when all are well.
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
  double prescale_ = 1;                 // the call's
  std::vector<std::int64_t> sent_;      // exchange: what this rank says
  std::vector<std::int64_t> received_;  // exchange: what all said, by rank
  std::vector<std::int64_t> exchange_counts_;
  OutputVerdict verdict_;
  bool any_is_the_callers_ = false;  // an output given, or an allocator, on some rank
};

/// Rows of each rank's block when `rows` are dealt out: the first rows % ranks blocks have one more.
std::int64_t scattered_rows(std::int64_t rows, int ranks, int index);

}  // namespace dabke::lanes
