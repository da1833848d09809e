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
bool runs_on_host(const CallSpec& call, Collectives collectives);

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // as in the timeline and in DABKE_CPU_OPERATIONS
  /// Pure, so that the answer can be kept, and equal on all ranks.
  virtual bool can_run(const CallSpec& call, const Extent& extent) const = 0;
  /// Whether it reaches all ranks of the set. Pure, and the same on all of them.
  virtual bool can_serve(const ProcessSetInfo& set) const {
    (void)set;
    return true;
  }
  virtual BatchSizes batch_sizes() const { return {}; }
  /// The type of the devices whose lanes run it.
  virtual DeviceType device_type() const { return DeviceType::host; }
  /// Whether a thread that waits for a result may run it: run() comes back by itself once all ranks are
  /// there.
  virtual bool can_run_on_waiters() const { return false; }
  // A communicator may need an id that one rank makes and all others know. The host's lane tells all ranks which version
  // of the library each has, and then broadcasts the id.
  /// The id's size; 0: none is needed.
  virtual std::size_t unique_id_bytes() const { return 0; }
  /// That of the library which this rank has; 0: any goes with any. On the host's lane.
  virtual Result<std::uint32_t> library_version() { return std::uint32_t{0}; }
  /// Those of all ranks, in set order, before an id is made. An error, the same on all of them: they do not go together.
  virtual Status check_versions(const ProcessSetInfo& set, std::span<const std::uint32_t> versions) const {
    (void)set, (void)versions;
    return {};
  }
  /// The set's first rank makes it before the set is prepared.
  virtual Status make_unique_id(const ProcessSetInfo& set, std::span<std::byte> id) {
    (void)set, (void)id;
    return {};
  }
  /// All ranks get it before the set is prepared.
  virtual void take_unique_id(const ProcessSetInfo& set, std::span<const std::byte> id) {
    (void)set, (void)id;
  }
  /// Ordered and collective over the set: makes communicators at a point that all its ranks have agreed on.
  /// Called before the first run of the set on the device.
  virtual Status prepare(const ProcessSetInfo& set, Device device) = 0;
  // What tensors are packed into, which all ranks of a set may have alike. Before a batch that needs more of it than there
  // is, once the set is prepared and all that came before has ended on the device:
  //   1. each rank takes memory that is the communicator's, too, or fails to
  //   2. the host's lane tells all ranks whether each of them has some
  //   3. each rank uses that; or memory of its own, which needs nobody's consent
  /// How many bytes of it a batch needs whose tensors have so many elements, by what all ranks know. 0: none, or none that
  /// are alike.
  virtual std::size_t bytes_alike(const Batch& batch, std::span<const std::int64_t> elements) const {
    (void)batch, (void)elements;
    return 0;
  }
  /// 1. Whatever there was before is gone.
  virtual bool take_memory_alike(const ProcessSetInfo& set, DeviceStream& stream, std::size_t bytes) {
    (void)set, (void)stream, (void)bytes;
    return false;
  }
  /// 3.
  virtual void use_memory(const ProcessSetInfo& set, bool is_alike) { (void)set, (void)is_alike; }
  /// Whether run() finds all memory that it needs. Where it does not it is called once all that came before has ended on
  /// the device, because to take some there may wait for that, and that for another rank.
  virtual bool has_room_for(const Batch& batch) {
    (void)batch;
    return true;
  }
  /// Runs on the lane's thread, or on one that waits, and only for sets of two ranks or more. The batch stays
  /// alive until `done` was called and, on a device, all that was enqueued has ended: there `done` says that all
  /// is enqueued. An error is the set's last run here, so the backend closes what other ranks wait for.
  virtual void run(const Batch& batch, Completion done) = 0;
  /// The set is gone, or its prepare has failed; drops its communicators. Ordered after the set's last batch.
  /// May be called twice, where several runners have prepared the set.
  virtual void release(ProcessSetId set, Device device) = 0;
  /// Nothing has run for a while: give back what is cheap to make again. On the lane's thread.
  virtual void idle() {}
  /// Asked by a device's lane again and again while a batch is on its way: for what is enqueued later than run()
  /// comes back, and for errors that a library tells only when asked; those fail the batch.
  virtual Status poll() { return {}; }
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

}  // namespace dabke
