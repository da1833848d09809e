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

namespace dabke::ops {
namespace gpu {
struct Piece;
}

class GpuKernels {
 public:
  /// Loads all of them; its context is current, here and below.
  static Result<GpuKernels> load(const cuda::Driver& driver);

  /// How many pieces one launch takes: 1,024, or 128 where the kernels were built by CUDA 12.
  static const std::size_t kMostPieces;
  /// What DeviceStream::copy() does, by one launch for so many pieces.
  Status copy(cuda::Stream stream, std::span<const ElementCopy> pieces, DType to, DType from,
              const kernels::Scale& by) const;
  Status fill_neutral(cuda::Stream stream, DType dtype, ReduceOp op, void* into, std::size_t elements) const;

 private:
  explicit GpuKernels(const cuda::Driver& driver) : driver_(&driver) {}
  Status find(std::string_view name, cuda::Module module);
  /// What a kernel counts its pieces in.
  struct Units {
    std::uint64_t in_block;
    std::size_t bytes_to;
    std::size_t bytes_from;
  };
  /// By launches of the form that takes these arguments. `pieces`: one or more, none empty.
  template <class Arguments>
  Status copy_in(cuda::Stream stream, const std::string& name, std::span<const gpu::Piece> pieces,
                 const Units& units, const kernels::Scale& by) const;
  Status launch(cuda::Stream stream, const std::string& name, std::uint64_t blocks, void* arguments) const;

  const cuda::Driver* driver_;
  std::map<std::string, cuda::Function, std::less<>> functions_;
};

}  // namespace dabke::ops
