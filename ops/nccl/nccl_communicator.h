// A communicator of NCCL (nccl_session.h says how it is used).
//
// The lane's thread calls NCCL, and an abort comes from another. Of NCCL's functions only ncclCommAbort may be called
// beside others, and not of every version; so calls take turns, and an abort waits for the end of the one that is under way, as no
// call of a communicator that does not block takes long. Where one does, the communicator is left as it is after kLeaveWithin:
// the lane says then that the device did not come to its end.
#pragma once

#include <atomic>
#include <mutex>

#include "ops/nccl/cuda_device.h"
#include "ops/nccl/nccl_library.h"
#include "ops/nccl/nccl_session.h"

namespace dabke::ops {

class NcclHandle;

class NcclRanks final : public NcclCommunicator {
 public:
  /// As NcclSession::make_communicator(). `library` outlives it.
  static Result<std::unique_ptr<NcclCommunicator>> make(const nccl::Library& library,
                                                        std::shared_ptr<CudaDevice> device,
                                                        const nccl::Id& id, int rank, int size,
                                                        TimePoint deadline,
                                                        const std::function<Status()>& interrupted);
  ~NcclRanks() override;
  Status start(std::span<const NcclCall> calls, DeviceStream& stream) override;
  Result<std::byte*> take_memory(std::size_t bytes) override;
  void give_back(std::byte* memory) override;
  Result<bool> poll() override;
  void abort() override;

 private:
  NcclRanks(std::shared_ptr<NcclHandle> handle, int rank) : handle_(std::move(handle)), rank_(rank) {}
  Status enqueue(const NcclCall& call, nccl::Communicator all, cuda::Stream stream) const;

  const std::shared_ptr<NcclHandle> handle_;
  const int rank_;
};

}  // namespace dabke::ops
