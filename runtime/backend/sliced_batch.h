// A batch of whole tensors, as hosts of several ranks move it.
//
// All tensors of the batch count as one row of elements. The row is cut into as many slices as the smallest
// host has ranks, or fewer if the batch is small. The i-th rank of each host carries the i-th slice. So a
// host sends its bytes once, over as many connections as there are slices, however many ranks it has. Three
// batches, one after the other, make up the whole:
//
//               before                               between                 after
//   allreduce   inside: reducescatter of the slices  allreduce of each      inside: allgather
//   broadcast   in the root's host: broadcast        broadcast of each      in the others: allgather
//
// A batch without entries is not run: for example on a rank that is alone in its host, or carries nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/backend/batch.h"
#include "runtime/backend/host_layout.h"

namespace dabke {

class SlicedBatch {
 public:
  /// `batch` and `set` outlive this object, and this object outlives the batches that it makes.
  SlicedBatch(const Batch& batch, const HostedSet& set);
  /// `batch` has tensors with as many elements as those of `like`, and is cut into the same slices.
  SlicedBatch(const Batch& batch, const SlicedBatch& like);

  Batch before() const;
  Batch between() const;
  Batch after() const;

  /// Elements of this rank's slice in entry `e`, and where they are in the entry's output.
  std::int64_t own_count(std::size_t e) const { return slices_[e][set_->layout.own_index]; }
  std::byte* own_output(std::size_t e) const;

 private:
  void cut();
  bool is_alone() const { return set_->inside.size() == 1; }
  bool has_root_here() const;

  const Batch* batch_;
  const HostedSet* set_;
  std::vector<std::vector<std::int64_t>>
      slices_;  // for each entry, the elements that each rank of the host carries
};

/// Makes a batch for a part of the set, with the place, order and trace of `batch`, and still without
/// entries.
Batch part_of(const Batch& batch, CollectiveKind kind, const ProcessSetInfo& set);

}  // namespace dabke
