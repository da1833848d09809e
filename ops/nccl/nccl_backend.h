// NCCL as a backend: one communicator a process set and device, made when the set is prepared there.
//
// A batch is packed into a fusion buffer, runs as one collective of NCCL, and is unpacked, all on the lane's stream. What is
// as large on all ranks (allreduce, broadcast) has a buffer for each set, whose memory is registered with NCCL where it is on
// each of its ranks; the rest has one of the lane's. They grow only while nothing else runs on the device.
// Large tensors of an allreduce or a broadcast stay where they are, and are one group of calls with what is
// packed. So the collectives of all communicators of a device run in the order of the lane. Averages and
// factors are the packing's and unpacking's; averages of integers travel in their wide dtype. Sums of float16 and
// bfloat16 are NCCL's own: what they are accumulated in differs from the host's kernels (docs/gpu.md).
//
// It is there in every job of a build that has the module, and costs nothing: the module, the driver and NCCL are
// loaded when the first tensor on a device comes.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ops/nccl/nccl_session.h"
#include "runtime/backend/activity.h"
#include "runtime/backend/device_backend.h"
#include "runtime/backend/packer.h"
#include "runtime/base/threads/abort_latch.h"

namespace dabke::ops {

/// Where the session comes from, once a device was opened.
using FindNccl = std::function<Result<NcclSession*>()>;

class NcclBackend final : public DeviceBackend, private IdExchange, private SymmetricMemory {
 public:
  NcclBackend(const BackendContext& context, FindNccl find) : context_(context), find_(std::move(find)) {}
  ~NcclBackend() override;

  std::string_view name() const override { return "nccl"; }
  DeviceType device_type() const override { return DeviceType::cuda; }
  bool can_run(const CallSpec& call, const Extent& extent) const override;
  Status prepare(const ProcessSetInfo& set, Device device) override;
  bool has_room_for(const Batch& batch) override;
  void run(const Batch& batch, Completion done) override;
  void release(ProcessSetId set, Device device) override;
  Status poll() override;
  void abort(const Status& cause) override;
  IdExchange* id_exchange() override { return this; }
  SymmetricMemory* symmetric_memory() override { return this; }

 private:
  using Id = std::array<std::byte, NcclSession::kIdBytes>;
  /// A buffer, and when it may be packed again.
  struct Slot {
    std::unique_ptr<Packer> packer;
    std::byte* memory = nullptr;            // the communicator's; null: the packer has memory of its own
    std::shared_ptr<DeviceEvent> unpacked;  // null: it is in the order of the stream
  };
  /// A process set on a lane's device.
  struct OfSet {
    std::shared_ptr<NcclCommunicator> communicator;
    std::vector<Slot> slots;  // of what is as large on all ranks; one for each of its streams, taken in turn
    std::size_t bytes = 0;    // how large each is, or should be
    std::uint64_t batches = 0;  // of those
  };
  /// A lane of this rank, by its thread: what it has under way.
  struct OfLane {
    std::map<ProcessSetId, OfSet> sets;
    Slot slot;  // of what is not as large on all ranks, for all sets
    DeviceStream* stream = nullptr;
    std::vector<std::int64_t> elements;  // of a batch that is asked about
    std::size_t held_bytes = 0;          // the packers', as the log has them
    Slot* packs = nullptr;               // that which has packed the batch
    DeviceStream* ordered = nullptr;     // where its collective is
    Batch packed;                        // of the batch what is packed: its large tensors are not
    std::vector<ElementCopy> results;    // those of the others, which are still to be scaled
    const Batch* batch = nullptr;        // handed to NCCL, which has not enqueued all of it yet
    std::optional<RunScope> activity;
    Completion done;
    Status failed;  // what its communicators were aborted for: they tell no more than that they were
  };

  std::size_t id_bytes() const override { return sizeof(Id); }
  Result<std::uint32_t> library_version() override;
  Status check_versions(const ProcessSetInfo& set, std::span<const std::uint32_t> versions) const override;
  Status make_id(const ProcessSetInfo& set, std::span<std::byte> id) override;
  void take_id(const ProcessSetInfo& set, std::span<const std::byte> id) override;

  std::size_t bytes_for(const Batch& batch, std::span<const std::int64_t> elements) const override;
  bool take(const ProcessSetInfo& set, DeviceStream& stream, std::size_t bytes) override;
  void use(const ProcessSetInfo& set, bool is_symmetric) override;

  OfLane& of_this_lane();
  Slot& slot_of(OfLane& lane, const Batch& batch) const;
  static void give_back(OfSet& of);
  void report_held_bytes(OfLane& lane) const;
  DType dtype_of_sums(const Batch& batch) const;
  Result<std::vector<NcclCall>> prepare_calls(OfLane& lane, const Batch& batch) const;
  static Result<std::vector<NcclCall>> take_large(OfLane& lane);
  Status start(OfLane& lane, const Batch& batch);
  /// NCCL has enqueued the lane's collective.
  Status finish(OfLane& lane) const;
  /// Aborts it, because other ranks wait for this one; the first cause.
  Status fail(OfLane& lane, NcclCommunicator& communicator, Status status);

  const BackendContext context_;
  const FindNccl find_;
  AbortLatch aborted_;
  std::atomic<bool> has_logged_version_{false};
  std::mutex mutex_;  // all below; a row of lanes_ is its thread's but for the communicators
  std::map<ProcessSetId, Id> ids_;
  std::map<std::thread::id, OfLane> lanes_;
};

/// Null where this build has no module for it.
Result<std::unique_ptr<DeviceBackend>> open_nccl_backend(const BackendContext& context);

/// Opens devices of this process through the module.
OpenDevice cuda_devices(const Config& config, const Environment& environment);

}  // namespace dabke::ops
