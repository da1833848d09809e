// What a backend runs: the tensors of one batch, and the call that is made of what was asked for.
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

/// The call that runs where another was asked for: an average has become a sum that is divided at its end, and
/// the root is a rank of the set. No backend sees average.
struct ExecutedCall : CallSpec {
  std::uint32_t divisor = 1;  // a sum is an average of so many, and divided by them
};
/// `contributors`: how many ranks brought data; those that have joined do not.
ExecutedCall executed(const CallSpec& asked, int contributors, const ProcessSetInfo& set);

/// How much a call moves, and among how many.
struct Extent {
  /// All tensors of the batch together, and the same on all ranks: what each rank puts in; what comes out of
  /// an allgather. An alltoall's is 0, because no rank knows what the others exchange.
  std::size_t size_bytes = 0;
  int ranks = 0;  // those of the process set; 0: any
};

/// One tensor of a batch. Counts are in elements, one for each rank of the set, in set order.
struct BatchEntry {
  const void* input = nullptr;  // may be null when it has no elements
  /// In place, and never overlapping the input otherwise: it is the input; where a sum is scattered, this
  /// rank's block of the input; of an allgather, where the input is this rank's block.
  void* output = nullptr;
  std::int64_t elements = 0;  // the input's
  // allgather: elements that each rank contributes; scattered sums: elements of each rank's slice;
  // alltoall: elements that each rank sends here.
  std::span<const std::int64_t> receive_counts;
  // alltoall: elements that go to each rank.
  std::span<const std::int64_t> send_counts;
};

/// Tensors that run as one collective, the same on every rank of the set.
struct Batch : ExecutedCall {
  std::uint64_t order = 0;          // number in the job's one sequence
  int device_index = 0;             // this rank's; the type is the same on all
  DeviceStream* stream = nullptr;   // a device's, where its work is to be enqueued; null: the host's
  DeviceStream* ordered = nullptr;  // where collectives of the device follow each other; null: on `stream`
  const ProcessSetInfo* process_set = nullptr;
  std::vector<BatchEntry> entries;
  TimePoint deadline = kNever;
  WaitCheck* check = nullptr;  // of the thread that runs it, which waits for the result; null: there is none

  timeline::BatchTrace trace;  // a batch that is a part of another has the other's

  /// Where this rank's tensors are.
  Device device() const { return {device_type, device_index}; }
  /// What is done to a reduction's result.
  kernels::Scale result_scale() const { return {postscale, divisor}; }
};

/// Whether a sum or product of some ranks' elements is rounded, or infinite, where that of all would not be:
/// float16 and bfloat16 are added in float32.
constexpr bool rounds_partial_results(DType dtype, ReduceOp op) {
  return (dtype == DType::f16 || dtype == DType::bf16) && (op == ReduceOp::sum || op == ReduceOp::product);
}

/// Whether no part of a result may be kept in the batch's own dtype, only all of it; of integers too: the
/// average of int8 is one where the sum is none. A backend then takes all ranks' elements at once, or adds in
/// kernels::wide_dtype().
bool needs_wide_sums(const Batch& batch);

/// What a float32 element travels as; not for `none`.
constexpr DType wire_dtype(Compression compression) {
  return compression == Compression::float16 ? DType::f16 : DType::bf16;
}

/// What all ranks must bring to a run: the same order, and as many tensors and bytes in it. Every backend
/// compares that, so that ranks which disagree on what belongs to a batch end with an error that tells them.
struct BatchMark {
  std::uint64_t order = 0;
  std::uint64_t contents = 0;  // tensors << 40 | bytes

  bool operator==(const BatchMark&) const = default;
  /// "2 tensors of 24 bytes to order 17"
  std::string to_string() const;
};
BatchMark mark_of(const Batch& batch);
/// The error where another rank brings something else.
Status batches_differ(const std::string& other_rank, const BatchMark& theirs, const BatchMark& own);

/// How much the batch moves; the same on all ranks, so all choose the same backend.
Extent extent_of(const Batch& batch);
/// Whether no rank has anything to move, as all of them know, and none need wait for another.
bool is_empty(const Batch& batch);

/// "allreduce of 3 tensors (order 17), rank 1 of 4 in process set 0"
std::string describe(const Batch& batch);

}  // namespace dabke
