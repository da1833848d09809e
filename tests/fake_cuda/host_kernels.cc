// The kernels of ops/nccl/kernels/elements.cu, compiled for the host: one thread of the grid after the other.
#include "tests/fake_cuda/host_kernels.h"

#include <cstring>

namespace {
struct Index {
  unsigned x = 0;
};
thread_local Index threadIdx;
thread_local Index blockIdx;
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
}  // namespace

#define __device__
#define __global__
#define __grid_constant__
#include "ops/nccl/kernels/elements.cu"

namespace dabke::testing {
namespace {

template <class Arguments, void (*kernel)(const Arguments)>
void run(const void* bytes, unsigned blocks, unsigned threads) {
  const auto& arguments = *static_cast<const Arguments*>(bytes);
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel(arguments);
  }
}

constexpr HostKernel kKernels[] = {{"dabke_copy", sizeof(CopyArguments), run<CopyArguments, dabke_copy>},
                                   {"dabke_fill", sizeof(FillArguments), run<FillArguments, dabke_fill>},
#define X(id) {"dabke_scale_" #id, sizeof(CopyArguments), run<CopyArguments, dabke_scale_##id>},
                                   DABKE_GPU_SCALES(X)
#undef X
#define X(id, wide)                                                                  \
  {"dabke_widen_" #id, sizeof(CopyArguments), run<CopyArguments, dabke_widen_##id>}, \
      {"dabke_narrow_" #id, sizeof(CopyArguments), run<CopyArguments, dabke_narrow_##id>},
                                       DABKE_GPU_WIDTHS(X)
#undef X
};

}  // namespace

const HostKernel* find_host_kernel(std::string_view name) {
  for (const HostKernel& kernel : kKernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

}  // namespace dabke::testing
