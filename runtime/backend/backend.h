// All that the runtime knows of any backend.
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

/// Called exactly once when a batch has ended, from any thread. An error says what went wrong: the runner puts
/// before it what the batch was.
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

/// What each backend of host memory asks first: whether the call is one of `collectives`, on the host.
inline bool runs_on_host(const CallSpec& call, Collectives collectives) {
  if (call.device_type != DeviceType::host) return false;
  if (reduces(call.kind) && (call.op == ReduceOp::average || call.op == ReduceOp::adasum)) return false;
  return collectives.contains(call.kind);
}

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // as in the timeline and in DABKE_CPU_OPERATIONS
  /// Whether such a call runs here. Pure, so that the answer can be kept, and equal on all ranks.
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
  /// Called before the first run of the set on the device.
  virtual Status prepare(const ProcessSetInfo& set, Device device) = 0;
  /// Runs on the lane's thread, or on one that waits, and only for sets of two ranks or more. The batch stays
  /// alive until `done` was called and, on a device, all that was enqueued has ended: there `done` says that all
  /// is enqueued. An error is the set's last run here, so the backend closes what other ranks wait for.
  virtual void run(const Batch& batch, Completion done) = 0;
  /// May be called from any thread. Every run in flight, and every later one, ends with that cause.
  virtual void abort(const Status& cause) = 0;
  /// The set is gone, or its prepare has failed; drops its communicators. Ordered after the set's last batch.
  /// May be called twice, where several runners have prepared the set.
  virtual void release(ProcessSetId set, Device device) = 0;
  /// Nothing has run for a while: give back what is cheap to make again. On the lane's thread.
  virtual void idle() {}
};

/// What a backend is made from. It all outlives the backend.
struct BackendContext {
  const World& world;
  const Config& config;
  std::shared_ptr<store::Store> store;  // this job's and epoch's
  ForkGuard& fork_guard;
  Log log;
  modules::MpiSession* mpi = nullptr;  // when MPI has started the job
  shm::SharedHeap* heap = nullptr;     // registered memory of this process, if there may be some
};

}  // namespace dabke
