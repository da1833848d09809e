#include "ops/nccl/nccl_process.h"

#include <cstring>

#include <fmt/format.h>

#include "ops/nccl/nccl_settings.h"
#include "ops/nccl/nvtx.h"

namespace dabke::ops {

Status NcclProcess::load_driver() {
  const std::lock_guard lock(mutex_);
  if (has_driver_) return {};
  DABKE_ASSIGN_OR_RETURN(driver_, cuda::load_driver());
  has_driver_ = true;
  return {};
}

Status NcclProcess::load_nccl(const std::string& library, const Environment& environment) {
  const std::lock_guard lock(mutex_);
  if (has_nccl_) return {};
  DABKE_RETURN_IF_ERROR(nccl::refuse_blocking(environment, nccl::settings_files(environment)));
  DABKE_ASSIGN_OR_RETURN(nccl_, nccl::load(library, environment));
  has_nccl_ = true;
  return {};
}

std::string NcclProcess::description() const { return fmt::format("{}, {}", nccl_.text, driver_.text); }

int NcclProcess::version() const { return nccl_.version; }

Result<std::shared_ptr<CudaDevice>> NcclProcess::find(int index) {
  const std::lock_guard lock(mutex_);
  if (!has_driver_) return Status(Code::internal, "a device was asked for before the driver was loaded");
  auto& device = devices_[index];
  if (device == nullptr) {
    auto opened = CudaDevice::open(driver_, index, nvtx_profiler());
    if (!opened) {
      devices_.erase(index);
      return opened.status();
    }
    device = opened.take();
  }
  return device;
}

Result<std::shared_ptr<DeviceStream>> NcclProcess::open(Device device, std::size_t sides) {
  DABKE_ASSIGN_OR_RETURN(const auto opened, find(device.index));
  if (opened->is_stuck()) {
    return Status(Code::unsupported,
                  fmt::format("{} has not finished a failed collective of an earlier job and may still write "
                              "to that job's tensors; restart this process",
                              device.to_string()));
  }
  return opened->open_stream(sides);
}

Status NcclProcess::make_id(std::span<std::byte> id) {
  std::shared_ptr<CudaDevice> any;
  {
    const std::lock_guard lock(mutex_);
    if (devices_.empty()) return {Code::internal, "an id was asked for before a device was opened"};
    any = devices_.begin()->second;
  }
  // NCCL uses the current device. Without one, it would make a context on device 0.
  const CudaScope current = any->scope();
  nccl::Id made{};
  DABKE_RETURN_IF_ERROR(nccl::check(nccl_, "ncclGetUniqueId", nccl_.get_unique_id(&made)));
  std::memcpy(id.data(), made.internal, sizeof made.internal);
  return {};
}

Result<std::unique_ptr<NcclCommunicator>> NcclProcess::make_communicator(
    Device device, std::span<const std::byte> id, int rank, int size, TimePoint deadline,
    const std::function<Status()>& interrupted) {
  DABKE_ASSIGN_OR_RETURN(auto opened, find(device.index));
  nccl::Id same{};
  std::memcpy(same.internal, id.data(), sizeof same.internal);
  return NcclRanks::make(nccl_, std::move(opened), same, rank, size, deadline, interrupted);
}

}  // namespace dabke::ops
