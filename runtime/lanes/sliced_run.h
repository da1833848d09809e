// The parts of a batch that the device's backend runs before and after the host moves the slices between
// hosts.
#pragma once

#include <optional>

#include "runtime/backend/fusion_buffer.h"
#include "runtime/backend/sliced_batch.h"

namespace dabke::lanes {

class SlicedRun {
 public:
  /// All arguments outlive it. `memory` is the lane's, for copies of the tensors.
  SlicedRun(const Batch& batch, const HostedSet& hosts, FusionBuffer& memory)
      : batch_(batch), hosts_(hosts), memory_(memory) {}

  /// Cuts the batch into its slices. If no partial sum may be kept in the batch's dtype (needs_wide_sums),
  /// enqueues scaled copies of the tensors in a dtype that can hold one.
  Status begin(DeviceStream& stream);
  Batch& before() { return before_; }
  /// The host's part, on the tensors of the device.
  Batch between() const { return sums_->between(); }
  Batch& after() { return after_; }
  /// Enqueues this rank's slice of the result, if its sums were made in another dtype.
  Status round_once(DeviceStream& stream) const;

 private:
  Status gather_wide(DeviceStream& stream);

  const Batch& batch_;
  const HostedSet& hosts_;
  FusionBuffer& memory_;
  Batch wide_;                         // copies that sums are kept in; no entries if the tensors are used
  std::optional<SlicedBatch> sums_;    // the slices of what is summed
  std::optional<SlicedBatch> slices_;  // the slices of the tensors
  Batch before_;
  Batch after_;
};

}  // namespace dabke::lanes
