// The unit that the coordinator hands to a lane: a batch, the calls whose tensors are in it, and what they
// need until it has ended.
#pragma once

#include <memory>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/operation/negotiated_call.h"

namespace dabke::lanes {

/// A tensor of a run, with the call that receives its result.
struct RunTensor {
  Operation* operation = nullptr;  // null on a rank that has joined: it uses neutral data
  std::size_t index = 0;           // of the tensor, within the operation
  NegotiatedCall* call = nullptr;
  const TensorSpec* tensor = nullptr;  // this rank's own, in the operation or in one of the run's requests
};

/// One batch on its way, with all that must live until it has ended.
struct Run {
  CollectiveKind kind = CollectiveKind::allreduce;  // as called; the batch of a message is a broadcast
  Batch batch;                                      // what runs; BatchBuilder fills in its entries
  std::shared_ptr<const ProcessSetInfo> process_set;
  std::shared_ptr<timeline::Timeline> timeline;
  std::vector<timeline::Record> records;  // of the tensors; empty if the timeline is off
  std::vector<RequestRef> requests;       // of tensors without an operation
  std::vector<RunTensor> tensors;         // empty if the set was removed: drop what belongs to it
  std::vector<DeviceBuffer> scratch;      // memory of its own: neutral data, scaled inputs, staged tensors
  std::vector<std::unique_ptr<std::int64_t[]>> counts;

  bool is_release() const { return tensors.empty(); }
};

/// Bytes of this rank's inputs, over all tensors that run.
inline std::size_t input_bytes(const Run& run) {
  std::size_t bytes = 0;
  for (const BatchEntry& entry : run.batch.entries)
    bytes += static_cast<std::size_t>(entry.elements) * size_of(run.batch.dtype);
  return bytes;
}

}  // namespace dabke::lanes
