// All that the executor knows of any backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/kernels/kernels.h"
#include "runtime/base/clock.h"
#include "runtime/base/config.h"
#include "runtime/base/fork_guard.h"
#include "runtime/base/kinds.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/tensor.h"
#include "runtime/base/world.h"
#include "runtime/call/call_spec.h"
#include "runtime/timeline/timeline.h"
#include "runtime/transport/mpi_session.h"
#include "runtime/transport/shm/shared_heap.h"
#include "runtime/transport/store.h"

namespace dabke {

/// A process set as a backend sees it.
struct ProcessSetInfo {
  ProcessSetId id = kWorldSet;
  std::vector<Rank> ranks;  // world ranks in set order
  int rank = 0;             // this process's index in `ranks`
  int size() const { return static_cast<int>(ranks.size()); }
};

/// FNV-1a, the same on all ranks. Not for secrets: it only keeps keys of sets with other ranks apart.
std::uint64_t hash_of(const std::vector<Rank>& ranks);

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
  void* output = nullptr;       // may equal input (in place), never overlaps it otherwise
  std::int64_t elements = 0;    // the input's
  // allgather: elements that each rank contributes; reducescatter: elements of each rank's slice;
  // alltoall: elements that each rank sends here.
  std::span<const std::int64_t> receive_counts;
  // alltoall: elements that go to each rank.
  std::span<const std::int64_t> send_counts;
};

/// Tensors that run as one collective, the same on every rank of the set.
struct Batch : ExecutedCall {
  std::uint64_t order = 0;  // number in the job's one sequence
  int device_index = 0;     // this rank's; the type is the same on all
  const ProcessSetInfo* process_set = nullptr;
  std::vector<BatchEntry> entries;
  TimePoint deadline = kNever;

  Timeline* timeline = nullptr;                  // null: off
  std::vector<Timeline::TensorId> timeline_ids;  // the entries'; empty when the timeline is off

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

/// Called exactly once when a batch has ended, from any thread.
struct Completion {
  void (*call)(void* context, const Status& status) = nullptr;
  void* context = nullptr;
  void operator()(const Status& status) const { call(context, status); }
};

/// The sizes of batches that suit a backend, in bytes.
struct BatchSizes {
  std::int64_t learned = 8 << 20;  // batches larger than about this make it no faster
  std::uint32_t alone =
      1 << 20;  // copying a tensor of this size or more with others costs more than it saves
};

/// What each backend of host memory asks first: whether the call is one that runs, on the host.
bool runs_on_host(const CallSpec& call);

class Collective {
 public:
  virtual ~Collective() = default;
  virtual std::string_view name() const = 0;  // as in the timeline and in DABKE_CPU_OPERATIONS
  /// Pure, so that the answer can be kept, and equal on all ranks.
  virtual bool can_run(const CallSpec& call, const Extent& extent) const = 0;
  /// Whether it reaches all ranks of the set. Pure, and the same on all of them.
  virtual bool can_serve(const ProcessSetInfo& set) const {
    (void)set;
    return true;
  }
  virtual BatchSizes batch_sizes() const { return {}; }
  /// Whether a thread that waits for a result may run it: run() comes back by itself once all ranks are
  /// there.
  virtual bool can_run_on_waiters() const { return false; }
  /// Ordered and collective over the set: makes communicators at a point that all its ranks have agreed on.
  virtual Status prepare(const ProcessSetInfo& set) = 0;
  /// Runs on the lane's thread, or on one that waits. The batch stays alive until `done` was called.
  virtual void run(const Batch& batch, Completion done) = 0;
  /// The set is gone; drops its communicators. Ordered after the set's last batch.
  virtual void release(ProcessSetId set) = 0;
  /// Nothing has run for a while: give back what is cheap to make again. On the lane's thread.
  virtual void idle() = 0;
  /// May be called from any thread. Every run in flight, and every later one, ends with that cause.
  virtual void abort(const Status& cause) = 0;
};

/// What a backend is made from. It all outlives the backend.
struct BackendContext {
  const World& world;
  const Config& config;
  std::shared_ptr<Store> store;  // this job's and epoch's
  ForkGuard& fork_guard;
  Log log;
  MpiSession* mpi = nullptr;   // when MPI has started the job
  SharedHeap* heap = nullptr;  // registered memory of this process, if there may be some
};

/// Whether this build has a backend of this name.
bool is_backend_built(std::string_view name);

/// The backends of this build in order of preference, as far as DABKE_CPU_OPERATIONS lets them; reading this
/// function shows what the program can do. An error when a backend was asked for by name that is not there.
Result<std::vector<std::unique_ptr<Collective>>> make_backends(const BackendContext& context);

}  // namespace dabke
