// What the coordinator hands to a lane: a batch, the calls whose tensors are in it, and what they need until it
// has ended.
#pragma once

#include <memory>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/operation/negotiated_call.h"

namespace dabke::lanes {

/// A tensor of a run, and who is told what becomes of it.
struct RunTensor {
  Operation* operation = nullptr;  // null on a rank that has joined: neutral data
  std::size_t index = 0;           // the tensor's within the operation
  NegotiatedCall* call = nullptr;
  const TensorSpec* tensor = nullptr;  // this rank's own; of the operation or one of the run's requests
};

/// One batch on its way, with all that must live until it has ended.
struct Run {
  Batch batch;  // what runs, from the beginning; its entries are BatchBuilder's to fill in
  std::shared_ptr<const ProcessSetInfo> process_set;
  std::shared_ptr<timeline::Timeline> timeline;
  std::vector<timeline::Record> records;  // what the tensors' say; none when the timeline is off
  std::vector<RequestRef> requests;       // those of tensors without an operation
  std::vector<RunTensor> tensors;         // none: the set was removed, drop what belongs to it
  std::vector<DeviceBuffer> scratch;      // memory of its own: neutral data, scaled inputs, staged tensors
  std::vector<std::unique_ptr<std::int64_t[]>> counts;

  bool is_release() const { return tensors.empty(); }
};

/// This rank's, of all tensors that run.
inline std::size_t input_bytes(const Run& run) {
  std::size_t bytes = 0;
  for (const BatchEntry& entry : run.batch.entries)
    bytes += static_cast<std::size_t>(entry.elements) * size_of(run.batch.dtype);
  return bytes;
}

}  // namespace dabke::lanes
