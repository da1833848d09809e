// Our kernels on one device: they copy, scale, convert and fill elements.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/nccl/cuda_driver.h"
#include "runtime/backend/device.h"

namespace dabke::ops {
namespace gpu {
struct Piece;
}

class GpuKernels {
 public:
  /// Loads all kernels. The device's context must be current, here and in the functions below.
  static Result<GpuKernels> load(const cuda::Driver& driver);

  /// The number of pieces that one launch takes: 1,024, or 128 if the kernels were built by CUDA 12.
  static const std::size_t kMostPieces;
  /// Implements DeviceStream::copy(), with one launch for up to kMostPieces pieces.
  Status copy(cuda::Stream stream, std::span<const ElementCopy> pieces, DType to, DType from,
              const kernels::Scale& by) const;
  Status fill_neutral(cuda::Stream stream, DType dtype, ReduceOp op, void* into, std::size_t elements) const;

 private:
  explicit GpuKernels(const cuda::Driver& driver) : driver_(&driver) {}
  Status find(std::string_view name, cuda::Module module);
  /// The units in which a kernel counts its pieces.
  struct Units {
    std::uint64_t in_block;
    std::size_t bytes_to;
    std::size_t bytes_from;
  };
  /// Copies by launches of the kernel form that takes `Arguments`. `pieces` has at least one element, and
  /// none is empty.
  template <class Arguments>
  Status copy_in(cuda::Stream stream, const std::string& name, std::span<const gpu::Piece> pieces,
                 const Units& units, const kernels::Scale& by) const;
  Status launch(cuda::Stream stream, const std::string& name, std::uint64_t blocks, void* arguments) const;

  const cuda::Driver* driver_;
  std::map<std::string, cuda::Function, std::less<>> functions_;
};

}  // namespace dabke::ops
