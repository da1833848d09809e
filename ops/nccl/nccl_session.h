// CUDA devices and NCCL as the library sees them; the module nccl implements it (ops/nccl/module.cc).
//
// All names are the runtime's own, so nothing above the module needs a header of CUDA or NCCL. A communicator is
// made at a point that its ranks have agreed on, never blocks, and is watched:
//   1. all ranks have one version() (IdExchange::check_versions); the set's first rank makes an id, and all ranks get it
//      (IdExchange::make_id, take_id)
//   2. each rank makes its communicator of it, and waits until it is there, until its deadline, or until the job is
//      aborted
//   3. start() hands a collective to NCCL; nothing more goes onto that stream until poll() says that NCCL has
//      enqueued it
//   4. poll() is asked until the collective has ended on the device, because NCCL tells an error only when asked
//   5. abort() ends the kernels of a collective whose peers are gone; it comes back at once
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "runtime/backend/device.h"
#include "runtime/base/clock.h"
#include "runtime/base/kinds.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"

namespace dabke::ops {

/// A collective on device memory. Counts are in elements, one for each rank.
///   allreduce      data, in place
///   broadcast      data, in place
///   allgather      data, with this rank's block filled in; receive_counts
///   reducescatter  send, blocks of send_counts; this rank's sum into data
///   alltoall       send, blocks of send_counts; data, blocks of receive_counts
struct NcclCall {
  CollectiveKind kind = CollectiveKind::allreduce;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  const std::byte* send = nullptr;
  std::byte* data = nullptr;
  std::size_t elements = 0;
  std::span<const std::size_t> send_counts;
  std::span<const std::size_t> receive_counts;
};

/// The ranks of a process set, on one device of each. Goes well: released at a point of the order that all ranks
/// have agreed on. After abort(): at any time.
class NcclCommunicator {
 public:
  virtual ~NcclCommunicator() = default;
  /// All of them at once, the same on all ranks. `stream`: one that the session has opened, of this communicator's device.
  virtual Status start(std::span<const NcclCall> calls, DeviceStream& stream) = 0;
  Status start(const NcclCall& call, DeviceStream& stream) { return start({&call, 1}, stream); }
  // Memory of NCCL's that it knows as this communicator's, so that it may move data there without a copy of its own. Nothing
  // of the device runs beside these.
  ///   errors  unsupported: this NCCL has none
  virtual Result<std::byte*> take_memory(std::size_t bytes) = 0;
  /// At the latest it is gone with the communicator.
  virtual void give_back(std::byte* memory) = 0;
  /// Whether NCCL has enqueued what was started.
  virtual Result<bool> poll() = 0;
  /// From any thread.
  virtual void abort() = 0;
};

/// CUDA and NCCL in this process. There is one, and it outlives every init.
class NcclSession {
 public:
  static constexpr std::size_t kIdBytes = 128;

  virtual ~NcclSession() = default;
  // Each finds its library, the first time. Comes back soon where there is none. From any thread.
  /// Enough for devices, and all that the host moves of theirs.
  virtual Status load_driver() = 0;
  /// After the driver. `library`: what DABKE_NCCL_LIBRARY names; empty: nothing.
  virtual Status load_nccl(const std::string& library, const Environment& environment) = 0;
  /// "NCCL 2.27.3 (pip: /.../libnccl.so.2), CUDA driver 13.0"
  virtual std::string description() const = 0;
  virtual int version() const = 0;
  /// From any thread. An error where a collective of a job that has failed may still write there.
  virtual Result<std::shared_ptr<DeviceStream>> open(Device device, std::size_t sides = 0) = 0;
  virtual Status make_id(std::span<std::byte> id) = 0;
  /// Collective; ends with what `interrupted` says, which is asked while it waits for the other ranks.
  virtual Result<std::unique_ptr<NcclCommunicator>> make_communicator(
      Device device, std::span<const std::byte> id, int rank, int size, TimePoint deadline,
      const std::function<Status()>& interrupted) = 0;
};

/// Whether NCCL reduces so: not 16-bit integers, not bits, but those of booleans.
bool nccl_reduces(DType dtype, ReduceOp op);

}  // namespace dabke::ops
