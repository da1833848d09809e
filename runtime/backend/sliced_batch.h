// A batch of whole tensors, as hosts of several ranks move it.
//
// All its tensors count as one row of elements. It is cut into as many slices as the smallest host has ranks, fewer when
// it is small; the i-th rank of each host carries the i-th slice. So a host sends its bytes once, on as many connections
// as there are slices, whatever the number of its ranks. Three batches make up the whole, one after the other:
//
//               before                               between                 after
//   allreduce   inside: reducescatter of the slices  allreduce of each      inside: allgather
//   broadcast   in the root's host: broadcast        broadcast of each      in the others: allgather
//
// A batch without entries is not run: by a rank that is alone in its host, by one that carries nothing, and so on.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/backend/batch.h"
#include "runtime/backend/host_layout.h"

namespace dabke {

class SlicedBatch {
 public:
  /// Both outlive it, and it the batches that it makes.
  SlicedBatch(const Batch& batch, const HostedSet& set);
  /// Of a batch whose tensors have as many elements as those of `like`, in the same slices.
  SlicedBatch(const Batch& batch, const SlicedBatch& like);

  Batch before() const;
  Batch between() const;
  Batch after() const;

  /// Elements of this rank's slice in entry `e`, and where they are in its output.
  std::int64_t own_count(std::size_t e) const { return slices_[e][set_->layout.own_index]; }
  std::byte* own_output(std::size_t e) const;

 private:
  void cut();
  bool is_alone() const { return set_->inside.size() == 1; }
  bool has_root_here() const;

  const Batch* batch_;
  const HostedSet* set_;
  std::vector<std::vector<std::int64_t>>
      slices_;  // of each entry: how much of it each rank of the host carries
};

/// A batch of the same place, order and trace, as yet without entries, among the ranks of a part of its set.
Batch part_of(const Batch& batch, CollectiveKind kind, const ProcessSetInfo& set);

}  // namespace dabke
