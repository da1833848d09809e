// Our kernels on one device: what copies, scales, converts and fills elements there.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/nccl/cuda_driver.h"
#include "runtime/backend/device.h"

namespace dabke {

class GpuKernels {
 public:
  /// Loads all of them; its context is current, here and below.
  static Result<GpuKernels> load(const cuda::Driver& driver);

  /// What DeviceStream::copy() does: up to 128 pieces a launch.
  Status copy(cuda::Stream stream, std::span<const ElementCopy> pieces, DType to, DType from,
              const kernels::Scale& by) const;
  Status fill_neutral(cuda::Stream stream, DType dtype, ReduceOp op, void* into, std::size_t elements) const;

 private:
  explicit GpuKernels(const cuda::Driver& driver) : driver_(&driver) {}
  Status find(std::string_view name, cuda::Module module);
  Status launch(cuda::Stream stream, const std::string& name, std::uint64_t blocks, void* arguments) const;

  const cuda::Driver* driver_;
  std::map<std::string, cuda::Function, std::less<>> functions_;
};

}  // namespace dabke
