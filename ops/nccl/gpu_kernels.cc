#include "ops/nccl/gpu_kernels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "ops/nccl/kernels/elements.h"

/// The code that nvcc made of kernels/elements.cu; Meson writes it.
extern "C" const unsigned char dabke_gpu_kernels[];

namespace dabke::ops {
namespace {

/// The dtype's id: "f32"
std::string_view id_of(DType dtype) {
  switch (dtype) {
#define X(id, ...) \
  case DType::id: return #id;
    DABKE_DTYPES(X)
#undef X
  }
  return {};
}

std::string kernel_of(DType to, DType from) {
  if (to == from) return fmt::format("dabke_scale_{}", id_of(to));
  if (to == kernels::wide_dtype(from)) return fmt::format("dabke_widen_{}", id_of(from));
  return fmt::format("dabke_narrow_{}", id_of(to));
}

}  // namespace

const std::size_t GpuKernels::kMostPieces = gpu::kManyPieces;

Status GpuKernels::find(std::string_view name, cuda::Module module) {
  cuda::Function function = nullptr;
  DABKE_RETURN_IF_ERROR(cuda::check(*driver_, fmt::format("cuModuleGetFunction of {}", name),
                                    driver_->module_function(&function, module, std::string(name).c_str())));
  // Loads the kernel now. A driver that loads lazily, as drivers from 12.2 on do, may leave the rest for the
  // first launch, which would then wait for a running collective.
  if (driver_->load_function != nullptr) {
    DABKE_RETURN_IF_ERROR(
        cuda::check(*driver_, fmt::format("cuFuncLoad of {}", name), driver_->load_function(function)));
  }
  functions_.emplace(name, function);
  return {};
}

Result<GpuKernels> GpuKernels::load(const cuda::Driver& driver) {
  GpuKernels kernels(driver);
  cuda::Module module = nullptr;  // lives as long as the process, like the context
  DABKE_RETURN_IF_ERROR(cuda::check(driver, "cuModuleLoadData of Dabke's kernels",
                                    driver.load_module(&module, dabke_gpu_kernels)));
  std::vector<std::string> copies = {"dabke_copy"};
#define X(id) copies.push_back("dabke_scale_" #id);
  DABKE_GPU_SCALES(X)
#undef X
#define X(id, wide) copies.insert(copies.end(), {"dabke_widen_" #id, "dabke_narrow_" #id});
  DABKE_GPU_WIDTHS(X)
#undef X
  for (const std::string& name : copies) {
    DABKE_RETURN_IF_ERROR(kernels.find(name, module));
    DABKE_RETURN_IF_ERROR(kernels.find(name + "_many", module));
  }
  DABKE_RETURN_IF_ERROR(kernels.find("dabke_fill", module));
  return kernels;
}

Status GpuKernels::launch(cuda::Stream stream, const std::string& name, std::uint64_t blocks,
                          void* arguments) const {
  void* all[] = {arguments};
  return cuda::check(*driver_, fmt::format("cuLaunchKernel of {}", name),
                     driver_->launch(functions_.find(name)->second, static_cast<unsigned>(blocks), 1, 1,
                                     gpu::kThreads, 1, 1, 0, stream, all, nullptr));
}

template <class Arguments>
Status GpuKernels::copy_in(cuda::Stream stream, const std::string& name, std::span<const gpu::Piece> pieces,
                           const Units& units, const kernels::Scale& by) const {
  constexpr std::size_t kMost = std::extent_v<decltype(Arguments::pieces)>;
  constexpr std::uint64_t kMostBlocks = (std::uint64_t{1} << 31) - 1;  // a launch counts them in 31 bits
  Arguments all{.scale = gpu::ElementScale(by)};
  std::uint64_t blocks = 0;
  const auto go = [&]() -> Status {
    all.first_block[all.count] = static_cast<std::uint32_t>(blocks);
    DABKE_RETURN_IF_ERROR(launch(stream, name, blocks, &all));
    all.count = 0;
    blocks = 0;
    return {};
  };
  for (gpu::Piece left : pieces) {
    while (left.elements != 0) {
      if (all.count == kMost || blocks == kMostBlocks) DABKE_RETURN_IF_ERROR(go());
      gpu::Piece part = left;
      part.elements = std::min(left.elements, (kMostBlocks - blocks) * units.in_block);
      all.first_block[all.count] = static_cast<std::uint32_t>(blocks);
      all.pieces[all.count++] = part;
      blocks += (part.elements + units.in_block - 1) / units.in_block;
      left.to = static_cast<std::byte*>(left.to) + part.elements * units.bytes_to;
      left.from = static_cast<const std::byte*>(left.from) + part.elements * units.bytes_from;
      left.elements -= part.elements;
    }
  }
  return go();
}

Status GpuKernels::copy(cuda::Stream stream, std::span<const ElementCopy> pieces, DType to, DType from,
                        const kernels::Scale& by) const {
  // A factor other than 0 leaves booleans unchanged.
  const bool moves_bytes = to == from && (by.is_one() || (to == DType::b8 && by.factor != 0));
  const Units units = moves_bytes ? Units{gpu::kBytesOfBlock, 1, 1}
                                  : Units{gpu::kElementsOfBlock, size_of(to), size_of(from)};
  std::vector<gpu::Piece> all;
  all.reserve(pieces.size());
  for (const ElementCopy& piece : pieces) {
    if (piece.elements == 0 || (moves_bytes && piece.to == piece.from)) continue;
    all.push_back({piece.to, piece.from, piece.elements * (moves_bytes ? size_of(from) : 1)});
  }
  if (all.empty()) return {};
  const std::string name = moves_bytes ? "dabke_copy" : kernel_of(to, from);
  if (all.size() <= gpu::kFewPieces) return copy_in<gpu::FewCopies>(stream, name, all, units, by);
  return copy_in<gpu::ManyCopies>(stream, name + "_many", all, units, by);
}

Status GpuKernels::fill_neutral(cuda::Stream stream, DType dtype, ReduceOp op, void* into,
                                std::size_t elements) const {
  if (elements == 0) return {};
  gpu::FillArguments what{into, elements, 0, static_cast<std::uint32_t>(size_of(dtype))};
  kernels::fill_neutral(dtype, op, &what.value, 1);
  const std::uint64_t blocks = (elements + gpu::kElementsOfBlock - 1) / gpu::kElementsOfBlock;
  return launch(stream, "dabke_fill", blocks, &what);
}

}  // namespace dabke::ops
