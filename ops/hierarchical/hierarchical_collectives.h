// Collectives of several hosts with several ranks each, composed of collectives inside a host and collectives
// between hosts.
//
//   allreduce       in slices (sliced_batch.h)
//   broadcast       in slices
//   barrier         inside; between the first ranks of the hosts; inside again
//   allgather       between: the i-th ranks gather their blocks; inside: every rank gets the blocks of all
//   reducescatter   the same steps in reverse
// The last two need hosts of equally many ranks, which follow one another in the set. Else they run as if
// every rank had a host of its own.
//
// If a sum over some of the ranks must not be rounded to the tensors' dtype (needs_wide_sums), copies in
// kernels::wide_dtype() are summed, inside and between. The results that are distributed inside are narrow
// again.
#pragma once

#include <functional>
#include <vector>

#include "runtime/backend/fusion_buffer.h"
#include "runtime/backend/sliced_batch.h"

namespace dabke::ops {

/// Runs a batch whose process set is the original batch's, or a subset of it, and waits for its end.
using RunPart = std::function<Status(const Batch&)>;

class HierarchicalRun {
 public:
  /// `scratch` and `wide` are working memory.
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

  /// Returns wide copies of the tensors, multiplied by the prescale. Behind the copies lie the outputs, with
  /// the sizes in `output_elements`; if that is empty, the copies are the outputs too.
  Result<Batch> widened(const std::vector<std::int64_t>& output_elements);
  Status run_part(const Batch& part) const { return part.entries.empty() ? Status() : run_(part); }
  Status run_barrier(const ProcessSetInfo& set) const {
    return run_(part_of(batch_, CollectiveKind::barrier, set));
  }
  /// Collects, for every entry, the counts of the ranks with this rank's index, by host, and reserves scratch
  /// memory for all of them.
  Result<std::byte*> reserve_columns();
  bool is_alone() const { return set_.inside.size() == 1; }
  std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * element_bytes_;
  }
  /// Returns the counts of the ranks with this rank's index, by host.
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
