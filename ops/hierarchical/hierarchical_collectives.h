// Collectives of several hosts with several ranks each, put together from those inside a host and between
// hosts.
//
//   allreduce       in slices (sliced_batch.h)
//   broadcast       in slices
//   barrier         inside; between the first of each host; inside again
//   allgather       between: the i-th ranks gather their blocks; inside: everybody gets the blocks of all
//   reducescatter   the same, backwards
// The last two need hosts of equally many ranks, which follow one another in the set; else they run as if
// every rank had a host of its own.
//
// Where no sum of some ranks' elements may be kept in their own dtype (needs_wide_sums), copies of the
// tensors are summed in kernels::wide_dtype(), inside and between; what is handed on inside is narrow again.
#pragma once

#include <functional>
#include <vector>

#include "runtime/backend/fusion_buffer.h"
#include "runtime/backend/sliced_batch.h"

namespace dabke::ops {

/// Runs a batch whose set is a part of the batch's own, or the whole, and waits.
using RunPart = std::function<Status(const Batch&)>;

class HierarchicalRun {
 public:
  /// `scratch` and `wide` are memory to work in.
  HierarchicalRun(const Batch& batch, const HostedSet& set, const RunPart& run, FusionBuffer& scratch,
                  FusionBuffer& wide);

  Status run();

 private:
  Status in_slices() const;
  Status allreduce_wide();
  Status reducescatter_wide();
  Status barrier();
  Status allgather();
  Status reducescatter();

  /// The tensors as wide copies, with the prescale; an output of `output_elements` each lies behind them, if
  /// any.
  Result<Batch> widened(const std::vector<std::int64_t>& output_elements);
  Status run_part(const Batch& part) const { return part.entries.empty() ? Status() : run_(part); }
  Status run_barrier(const ProcessSetInfo& set) const {
    return run_(part_of(batch_, CollectiveKind::barrier, set));
  }
  /// Collects, for every entry, the counts of the ranks that carry what this rank carries, by host; and
  /// reserves scratch for all of that.
  Result<std::byte*> reserve_columns();
  bool is_alone() const { return set_.inside.size() == 1; }
  std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * element_bytes_;
  }
  /// Counts of the ranks with this rank's index, by host.
  std::vector<std::int64_t> column(std::span<const std::int64_t> counts) const;

  const Batch& batch_;
  const HostedSet& set_;
  const RunPart& run_;
  FusionBuffer& scratch_;
  FusionBuffer& wide_;
  const std::size_t element_bytes_;
  std::vector<std::vector<std::int64_t>> columns_;
};

}  // namespace dabke::ops
