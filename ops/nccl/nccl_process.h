// CUDA and NCCL in this process, as the module gives them to the library.
#pragma once

#include <map>
#include <mutex>

#include "ops/nccl/nccl_communicator.h"

namespace dabke::ops {

class NcclProcess final : public NcclSession {
 public:
  Status load_driver() override;
  Status load_nccl(const std::string& library, const Environment& environment) override;
  std::string description() const override;
  int version() const override;
  Result<std::shared_ptr<DeviceStream>> open(Device device, std::size_t sides = 0) override;
  Status make_id(std::span<std::byte> id) override;
  Result<std::unique_ptr<NcclCommunicator>> make_communicator(
      Device device, std::span<const std::byte> id, int rank, int size, TimePoint deadline,
      const std::function<Status()>& interrupted) override;

 private:
  Result<std::shared_ptr<CudaDevice>> find(int index);

  std::mutex mutex_;  // guards all members below; a loaded library stays as it is
  bool has_driver_ = false;
  cuda::Driver driver_;
  bool has_nccl_ = false;
  nccl::Library nccl_;
  std::map<int, std::shared_ptr<CudaDevice>> devices_;
};

}  // namespace dabke::ops
