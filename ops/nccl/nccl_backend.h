// NCCL as a backend: one communicator for each process set and device, made when the set is prepared on the
// device.
//
// A batch is packed into a fusion buffer, runs as one collective of NCCL, and is unpacked, all on the lane's
// stream. If all ranks need equally many bytes (allreduce, broadcast), the set has a buffer of its own. Its
// memory is registered with NCCL if each rank of the set has such memory. All other batches share one buffer
// of the lane. Buffers grow only while nothing else runs on the device.
// Large tensors of an allreduce or a broadcast are not packed. They form one group of calls with the packed
// tensors. So the collectives of all communicators of a device run in the order of the lane.
// Packing and unpacking apply averages and factors; averages of integers travel in their wide dtype. NCCL
// itself sums float16 and bfloat16, and accumulates in other dtypes than the host's kernels (docs/gpu.md).
//
// Every job of a build with the module has this backend, at no cost: the module, the driver and NCCL are
// loaded with the first tensor on a device.
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

/// Returns the session, once a device was opened.
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
  /// A buffer, and the event after which it may be packed again.
  struct Slot {
    std::unique_ptr<Packer> packer;
    std::byte* memory = nullptr;            // the communicator's; null: the packer uses its own memory
    std::shared_ptr<DeviceEvent> unpacked;  // null: the order of the stream is enough
  };
  /// A process set on a lane's device.
  struct OfSet {
    std::shared_ptr<NcclCommunicator> communicator;
    // For batches with equal bytes on all ranks. One slot for each stream, used in turn.
    std::vector<Slot> slots;
    std::size_t bytes = 0;      // the size that each slot has, or should have
    std::uint64_t batches = 0;  // number of such batches so far
  };
  /// The state of one lane of this rank, which the lane's thread identifies.
  struct OfLane {
    std::map<ProcessSetId, OfSet> sets;
    Slot slot;  // for batches whose bytes differ between ranks, of all sets
    DeviceStream* stream = nullptr;
    std::vector<std::int64_t> elements;  // of the batch for which has_room_for() is called
    std::size_t held_bytes = 0;          // bytes that the packers hold, as logged last
    Slot* packs = nullptr;               // the slot that has packed the batch
    DeviceStream* ordered = nullptr;     // the stream of the batch's collective
    Batch packed;                        // the packed part of the batch, without its large tensors
    std::vector<ElementCopy> results;    // the large tensors, which still have to be scaled
    const Batch* batch = nullptr;        // handed to NCCL, which has not enqueued all of it yet
    std::optional<RunScope> activity;
    Completion done;
    // The reason why its communicators were aborted. They themselves report only that they were.
    Status failed;
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
  /// Called when NCCL has enqueued the lane's collective.
  Status finish(OfLane& lane) const;
  /// Aborts the communicator, because other ranks wait for this one. Returns the first cause.
  Status fail(OfLane& lane, NcclCommunicator& communicator, Status status);

  const BackendContext context_;
  const FindNccl find_;
  AbortLatch aborted_;
  std::atomic<bool> has_logged_version_{false};
  // Guards all members below. A row of lanes_ belongs to its thread, except for the communicators.
  std::mutex mutex_;
  std::map<ProcessSetId, Id> ids_;
  std::map<std::thread::id, OfLane> lanes_;
};

/// Returns null if this build has no module for NCCL.
Result<std::unique_ptr<DeviceBackend>> open_nccl_backend(const BackendContext& context);

/// Returns a function that opens devices of this process through the module.
OpenDevice cuda_devices(const Config& config, const Environment& environment);

}  // namespace dabke::ops
