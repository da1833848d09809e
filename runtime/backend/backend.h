// The interface of a backend, and all that the runtime uses of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/backend/batch.h"
#include "runtime/base/log.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/fork_guard.h"
#include "runtime/base/world.h"
#include "runtime/links/shm/shared_heap.h"
#include "runtime/modules/mpi_session.h"
#include "runtime/store/store.h"

namespace dabke {

/// Called exactly once when a batch has ended, from any thread. An error states only what went wrong; the
/// runner prefixes it with a description of the batch.
struct Completion {
  void (*call)(void* context, const Status& status) = nullptr;
  void* context = nullptr;
  void operator()(const Status& status) const { call(context, status); }
};

/// The sizes of batches that suit a backend, in bytes.
struct BatchSizes {
  std::int64_t learned = 8 << 20;  // batches larger than about this make the backend no faster
  std::uint32_t alone =
      1 << 20;  // copying a tensor of this size or more into a fusion buffer costs more than it saves
};

/// True if the call runs on the host and is one of `collectives`, but is neither an average nor an Adasum.
/// Every backend of host memory checks this first.
inline bool runs_on_host(const CallSpec& call, Collectives collectives) {
  if (call.device_type != DeviceType::host) return false;
  if (reduces(call.kind) && (call.op == ReduceOp::average || call.op == ReduceOp::adasum)) return false;
  return collectives.contains(call.kind);
}

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // as in the timeline and in DABKE_CPU_OPERATIONS
  /// True if such a call can run here. Pure, so that callers may cache the answer, and equal on all ranks.
  virtual bool can_run(const CallSpec& call, const Extent& extent) const = 0;
  /// True if the backend reaches all ranks of the set. Pure, and equal on all ranks.
  virtual bool can_serve(const ProcessSetInfo& set) const {
    (void)set;
    return true;
  }
  virtual BatchSizes batch_sizes() const { return {}; }
  /// True if a thread that waits for a result may call run(). Then run() returns by itself once all ranks are
  /// there.
  virtual bool can_run_on_waiters() const { return false; }
  /// Makes communicators, at a point on which all ranks of the set have agreed: ordered, and collective over
  /// the set. Called before the first run of the set on the device.
  virtual Status prepare(const ProcessSetInfo& set, Device device) = 0;
  /// Called on the lane's thread, or on a thread that waits for a result, and only for sets of two ranks or
  /// more. `done` means that the batch has ended or, on a device, that all its work is enqueued. The batch
  /// stays alive until `done` was called and all enqueued work has ended. An error is the set's last run on
  /// this backend, so the backend closes what other ranks wait for.
  virtual void run(const Batch& batch, Completion done) = 0;
  /// May be called from any thread. Every run in flight, and every later run, ends with `cause`.
  virtual void abort(const Status& cause) = 0;
  /// Drops the communicators of a set that is gone, or whose prepare() has failed. Ordered after the set's
  /// last batch. May be called twice if several runners have prepared the set.
  virtual void release(ProcessSetId set, Device device) = 0;
  /// Gives back what is cheap to make again, when nothing has run for a while. Called on the lane's thread.
  virtual void idle() {}
};

/// The objects that a backend is made from. All of them outlive the backend.
struct BackendContext {
  const World& world;
  const Config& config;
  std::shared_ptr<store::Store> store;  // the store of this job and epoch
  ForkGuard& fork_guard;
  Log log;
  modules::MpiSession* mpi = nullptr;  // set if MPI has started the job
  shm::SharedHeap* heap = nullptr;     // registered memory of this process, if it can have any
};

}  // namespace dabke
