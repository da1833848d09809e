// A communicator of NCCL (nccl_session.h describes its use).
//
// The lane's thread calls NCCL, and an abort comes from another thread. Only ncclCommAbort may be called
// while another function of NCCL runs, and only in some versions. So calls take turns, and an abort waits for
// the end of the current call. Calls are short, because the communicator does not block. If a call takes
// longer than kLeaveWithin, the communicator is left as it is. The lane then reports that the device has not
// finished.
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
  /// Like NcclSession::make_communicator(). `library` outlives the communicator.
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
