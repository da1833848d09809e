// Copies of a device's tensors for a backend of the host, and their way back.
#pragma once

#include <vector>

#include "runtime/backend/fusion_buffer.h"
#include "runtime/lanes/run.h"

namespace dabke::lanes {

class StagedBatch {
 public:
  /// The batch for the host to run.
  const Batch& batch() const { return batch_; }

  /// Enqueues copies of the tensors that `what` moves into host memory, which the run owns. The inputs are
  /// read where `what` has them, and the results come back there.
  Status copy_to_host(Batch what, Run& run, DeviceStream& stream);
  /// Enqueues copies of the run's batch into `memory`, one tensor behind the other, for a backend that takes
  /// pointers to a device's memory. That backend may read and write the copies without a time limit, also
  /// after an abort, and never sees the tensors' own memory.
  Status copy_on_device(const Run& run, DeviceStream& stream, FusionBuffer& memory);
  /// Enqueues the way back of the results, once the host has run the batch.
  Status copy_back(DeviceStream& stream) const;

 private:
  struct Output {
    void* tensor;
    void* copy;
    std::size_t bytes;
  };

  Batch batch_;
  std::vector<Output> outputs_;
  bool is_on_device_ = false;
};

}  // namespace dabke::lanes
