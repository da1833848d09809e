// Collectives of several hosts with several ranks each, put together from those inside a host and between
// hosts.
//
// All tensors of a batch count as one row of elements. It is cut into as many slices as the smallest host has
// ranks, fewer when it is small; the i-th rank of each host carries the i-th slice.
//
//   allreduce       inside: reducescatter of the slices; between: allreduce of each; inside: allgather. So a
//                   host sends its bytes once, on as many connections as there are slices, whatever the
//                   number of its ranks.
//   broadcast       in the root's host: broadcast; between: broadcast of each slice; in the others: allgather
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

#include "ops/hierarchical/host_layout.h"
#include "runtime/backend/fusion_buffer.h"

namespace dabke {

/// A process set, and where its collectives come from.
struct HostedSet {
  HostLayout layout;
  ProcessSetInfo inside;
  ProcessSetInfo between;
  /// Runs a batch whose set is `inside`, `between` or the whole, and waits.
  std::function<Status(const Batch&)> run_part;
};

class HierarchicalRun {
 public:
  /// `scratch` and `wide` are memory to work in.
  HierarchicalRun(const Batch& batch, const HostedSet& set, FusionBuffer& scratch, FusionBuffer& wide);

  Status run();

 private:
  /// Every carrier's slices of the whole sum, in the outputs.
  Status sum_slices();
  Status sum_slices_wide();
  Status reducescatter_wide();
  Status allreduce();
  Status broadcast();
  Status barrier();
  Status allgather();
  Status reducescatter();

  void cut();
  /// The tensors as wide copies, with the prescale; an output of `output_elements` each lies behind them, if
  /// any.
  Result<Batch> widened(const std::vector<std::int64_t>& output_elements);
  Batch part(CollectiveKind kind, const ProcessSetInfo& set) const;
  Status run_part(const Batch& part) const { return part.entries.empty() ? Status() : set_.run_part(part); }
  Status run_barrier(const ProcessSetInfo& set) const {
    return set_.run_part(part(CollectiveKind::barrier, set));
  }
  /// Collects, for every entry, the counts of the ranks that carry what this rank carries, by host; and
  /// reserves scratch for all of that.
  Result<std::byte*> reserve_columns();
  /// Everybody in this host gets the slices that its ranks carry.
  Status share_slices() const;
  bool is_alone() const { return set_.inside.size() == 1; }
  std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * element_bytes_;
  }
  /// Elements of entry `e` before this rank's slice, and in it.
  std::int64_t own_begin(std::size_t e) const;
  std::int64_t own_count(std::size_t e) const { return slices_[e][set_.layout.own_index]; }
  std::byte* own_output(std::size_t e) const {
    return static_cast<std::byte*>(batch_.entries[e].output) + bytes(own_begin(e));
  }
  /// Counts of the ranks with this rank's index, by host.
  std::vector<std::int64_t> column(std::span<const std::int64_t> counts) const;

  const Batch& batch_;
  const HostedSet& set_;
  FusionBuffer& scratch_;
  FusionBuffer& wide_;
  const std::size_t element_bytes_;
  std::vector<std::vector<std::int64_t>>
      slices_;  // of each entry: how much of it each rank of the host carries
  std::vector<std::vector<std::int64_t>> columns_;
};

}  // namespace dabke
