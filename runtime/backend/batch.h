// The work of a backend: the tensors of one batch, and the call that is made from the request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/backend/device.h"
#include "runtime/backend/process_set_info.h"
#include "runtime/base/clock.h"
#include "runtime/base/kinds.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/wait_check.h"
#include "runtime/call/call_spec.h"
#include "runtime/kernels/kernels.h"
#include "runtime/timeline/recording/timeline.h"

namespace dabke {

/// The call that runs in place of the requested one. An average has become a sum that is divided at its end,
/// and the root is an index into the set's ranks. No backend sees an average.
struct ExecutedCall : CallSpec {
  std::uint32_t divisor = 1;  // divides the sum of an average; 1 for a plain sum
};
/// `contributors` is the number of ranks that brought data. Ranks that have joined bring none.
ExecutedCall executed(const CallSpec& asked, int contributors, const ProcessSetInfo& set);

/// The bytes that a call moves, and the ranks among which it moves them.
struct Extent {
  /// Bytes of all tensors of the batch together, equal on all ranks: what each rank contributes, or the
  /// output of an allgather. For an alltoall it is 0, because no rank has the counts of the other ranks.
  std::size_t size_bytes = 0;
  int ranks = 0;  // ranks of the process set; 0 for any number
};

/// One tensor of a batch. Counts are in elements, one for each rank of the set, in set order.
struct BatchEntry {
  const void* input = nullptr;  // may be null if it has no elements
  /// In place, or without any overlap with the input. In place is:
  /// * for a scattered sum: this rank's block of the input
  /// * for an allgather: memory in which the input is this rank's block
  /// * for all others: the input itself
  void* output = nullptr;
  std::int64_t elements = 0;  // of the input
  // Elements of each rank:
  // * allgather: what the rank contributes
  // * scattered sums: the rank's slice
  // * alltoall: what the rank sends to this rank
  std::span<const std::int64_t> receive_counts;
  // alltoall: elements that this rank sends to each rank.
  std::span<const std::int64_t> send_counts;
};

/// Tensors that run as one collective, the same on every rank of the set.
struct Batch : ExecutedCall {
  std::uint64_t order = 0;          // number in the job's one sequence of orders
  int device_index = 0;             // on this rank; the device type is equal on all ranks
  DeviceStream* stream = nullptr;   // the device's stream on which to enqueue the work; null for the host
  DeviceStream* ordered = nullptr;  // the stream that orders the device's collectives; null for `stream`
  const ProcessSetInfo* process_set = nullptr;
  std::vector<BatchEntry> entries;
  TimePoint deadline = kNever;
  WaitCheck* check = nullptr;  // of a waiting thread that runs the batch; null if none does

  timeline::BatchTrace trace;  // a part of another batch has that batch's trace

  /// The device of this rank's tensors.
  Device device() const { return {device_type, device_index}; }
  /// The scale that is applied to a reduction's result.
  kernels::Scale result_scale() const { return {postscale, divisor}; }
};

/// True if a sum or product over some ranks, kept in `dtype`, may be rounded or infinite where the result
/// over all ranks is not. float16 and bfloat16 are therefore added in float32.
constexpr bool rounds_partial_results(DType dtype, ReduceOp op) {
  return (dtype == DType::f16 || dtype == DType::bf16) && (op == ReduceOp::sum || op == ReduceOp::product);
}

/// True if only the complete result may be kept in the batch's own dtype, and no partial result. This
/// includes integers: an average may fit int8 where the sum does not. A backend then takes the elements of
/// all ranks at once, or adds in kernels::wide_dtype().
bool needs_wide_sums(const Batch& batch);

/// The dtype in which a float32 element travels. Not for `none`.
constexpr DType wire_dtype(Compression compression) {
  return compression == Compression::float16 ? DType::f16 : DType::bf16;
}

/// The mark that all ranks must bring to a run: the order, and the numbers of tensors and bytes in it. Every
/// backend compares the marks. Ranks that disagree on the content of a batch therefore end with an error that
/// shows both marks.
struct BatchMark {
  std::uint64_t order = 0;
  std::uint64_t contents = 0;  // tensors << 40 | bytes

  bool operator==(const BatchMark&) const = default;
  /// "2 tensors of 24 bytes to order 17"
  std::string to_string() const;
};
BatchMark mark_of(const Batch& batch);
/// Returns the error for a rank whose mark differs from this rank's.
Status batches_differ(const std::string& other_rank, const BatchMark& theirs, const BatchMark& own);

/// Returns how much the batch moves. Equal on all ranks, so that all choose the same backend.
Extent extent_of(const Batch& batch);
/// True if no rank has anything to move and every rank can compute that. Then no rank needs to wait for
/// another.
bool is_empty(const Batch& batch);

/// "allreduce of 3 tensors (order 17), rank 1 of 4 in process set 0"
std::string describe(const Batch& batch);

}  // namespace dabke
