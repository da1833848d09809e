// CUDA devices and NCCL as the library sees them. The module nccl implements this interface
// (ops/nccl/module.cc).
//
// All names are the runtime's own, so code above the module needs no header of CUDA or NCCL. A communicator
// is made at a point on which its ranks have agreed, never blocks, and is polled:
//   1. All ranks have the same version() (IdExchange::check_versions). The set's first rank makes an id, and
//      all ranks get it (IdExchange::make_id, take_id).
//   2. Each rank makes its communicator from the id. It waits until the communicator is ready, until its
//      deadline, or until the job is aborted.
//   3. start() hands a collective to NCCL. Nothing more is enqueued on that stream until poll() reports that
//      NCCL has enqueued the collective.
//   4. poll() is called until the collective has ended on the device, because NCCL reports an error only when
//      asked.
//   5. abort() ends the kernels of a collective whose peers are gone. It returns at once.
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

/// The ranks of a process set, each on one device. As long as all goes well, the communicator is released at
/// a point of the order on which all ranks have agreed. After abort() it may be released at any time.
class NcclCommunicator {
 public:
  virtual ~NcclCommunicator() = default;
  /// Starts all calls at once, the same on all ranks. The session has opened `stream`, on this communicator's
  /// device.
  virtual Status start(std::span<const NcclCall> calls, DeviceStream& stream) = 0;
  Status start(const NcclCall& call, DeviceStream& stream) { return start({&call, 1}, stream); }
  // NCCL's own memory, registered with this communicator, so that NCCL can move data there without an
  // internal copy. Nothing else may run on the device during these two calls.
  ///   errors  unsupported: this NCCL has none
  virtual Result<std::byte*> take_memory(std::size_t bytes) = 0;
  /// Memory that is not given back is released with the communicator.
  virtual void give_back(std::byte* memory) = 0;
  /// True if NCCL has enqueued the calls of start().
  virtual Result<bool> poll() = 0;
  /// May be called from any thread.
  virtual void abort() = 0;
};

/// CUDA and NCCL in this process. There is one, and it outlives every init.
class NcclSession {
 public:
  static constexpr std::size_t kIdBytes = 128;

  virtual ~NcclSession() = default;
  // Each function loads its library on the first call, and returns soon if there is none. From any thread.
  /// Loads the driver. This is enough for devices, and for all copies between them and the host.
  virtual Status load_driver() = 0;
  /// Loads NCCL, after the driver. `library` is the value of DABKE_NCCL_LIBRARY, or empty.
  virtual Status load_nccl(const std::string& library, const Environment& environment) = 0;
  /// "NCCL 2.27.3 (pip: /.../libnccl.so.2), CUDA driver 13.0"
  virtual std::string description() const = 0;
  virtual int version() const = 0;
  /// From any thread. Returns an error if a collective of a failed job may still write to the device.
  virtual Result<std::shared_ptr<DeviceStream>> open(Device device, std::size_t sides = 0) = 0;
  virtual Status make_id(std::span<std::byte> id) = 0;
  /// Collective. `interrupted` is called while it waits for the other ranks; its error ends the wait.
  virtual Result<std::unique_ptr<NcclCommunicator>> make_communicator(
      Device device, std::span<const std::byte> id, int rank, int size, TimePoint deadline,
      const std::function<Status()>& interrupted) = 0;
};

/// True if NCCL can reduce this way: not 16-bit integers, and bitwise operations only of booleans.
bool nccl_reduces(DType dtype, ReduceOp op);

}  // namespace dabke::ops
