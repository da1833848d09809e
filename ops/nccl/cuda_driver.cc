#include "ops/nccl/cuda_driver.h"

#include <dlfcn.h>

#include <algorithm>

#include <fmt/format.h>

namespace dabke::cuda {
namespace {

/// Returns what is known of an error beyond the driver's own text.
std::string_view remedy_for(Error error) {
  switch (error) {
    case kNoDevice:
      return "; no GPU is visible to this process: check nvidia-smi, CUDA_VISIBLE_DEVICES and the "
             "container's devices";
    case kUnsupportedPtxVersion:
      return "; the driver is older than this build's kernels: install a newer driver, or build with the "
             "CUDA "
             "Toolkit of the driver's version";
    case kNoBinaryForGpu: return "; this build's kernels are for GPUs of compute capability 8.0 and newer";
    case kSystemDriverMismatch:
      return "; the kernel's driver and libcuda.so.1 have different versions: reboot, or reload the driver";
    case kNoCompatibility:
      return "; libcuda.so.1 comes from a compatibility package that does not support this GPU: use the "
             "driver's own";
    case kUnknown:
      return "; the driver has lost the GPU or was not loaded completely: check dmesg, and that /dev/nvidia* "
             "exist";
    default: return "";
  }
}

}  // namespace

std::string describe(const Driver& driver, Error error) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name == nullptr || driver.error_name(error, &name) != kSuccess || name == nullptr)
    name = "CUDA error";
  if (driver.error_text == nullptr || driver.error_text(error, &text) != kSuccess || text == nullptr)
    text = "unknown";
  return fmt::format("{} ({}): {}{}", name, error, text, remedy_for(error));
}

Status check(const Driver& driver, std::string_view call, Error error) {
  if (error == kSuccess) return {};
  return {error == kOutOfMemory ? Code::out_of_memory : Code::transport,
          fmt::format("{}: {}", call, describe(driver, error))};
}

Result<Driver> load_driver(std::string_view file) {
  void* const library = ::dlopen(std::string(file).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return Status(
        Code::unsupported,
        fmt::format("there is no CUDA driver on this machine ({}); install NVIDIA's driver, or copy the "
                    "tensor to the host",
                    ::dlerror()));
  }
  Driver driver;
#define X(member, in_header, exported, parameters)                                           \
  driver.member = reinterpret_cast<decltype(driver.member)>(::dlsym(library, exported));     \
  if (driver.member == nullptr) {                                                            \
    return Status(Code::unsupported,                                                         \
                  fmt::format("{} has no {}: the driver is older than CUDA 11.2; install a " \
                              "newer one",                                                   \
                              file, exported));                                              \
  }
  DABKE_CUDA_DRIVER(X)
#undef X
#define X(member, in_header, exported, parameters) \
  driver.member = reinterpret_cast<decltype(driver.member)>(::dlsym(library, exported));
  DABKE_LATER_CUDA_DRIVER(X)
#undef X
  if (const Error error = driver.init(0); error != kSuccess)
    return Status(Code::unsupported,
                  fmt::format("the CUDA driver cannot be used: cuInit: {}", describe(driver, error)));
  int devices = 0;
  Error error = driver.device_count(&devices);
  if (error == kSuccess && devices == 0) error = kNoDevice;
  if (error != kSuccess)
    return Status(Code::unsupported, fmt::format("the CUDA driver cannot be used: cuDeviceGetCount: {}",
                                                 describe(driver, error)));
  DABKE_RETURN_IF_ERROR(check(driver, "cuDriverGetVersion", driver.driver_version(&driver.version)));
  driver.text = fmt::format("CUDA driver {}.{}", driver.version / 1000, driver.version % 1000 / 10);
  return driver;
}

}  // namespace dabke::cuda
