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
#define DABKE_ARGUMENT(T) const T&
#include "ops/nccl/kernels/elements.cu"

namespace dabke::test {
namespace {

template <class Arguments, void (*kernel)(const Arguments&)>
void run(const void* bytes, unsigned blocks, unsigned threads) {
  const auto& arguments = *static_cast<const Arguments*>(bytes);
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel(arguments);
  }
}

template <class Arguments, void (*kernel)(const Arguments&)>
constexpr HostKernel as_host_kernel(std::string_view name) {
  return {name, sizeof(Arguments), run<Arguments, kernel>};
}

#define BOTH_FORMS(name) \
  as_host_kernel<FewCopies, name>(#name), as_host_kernel<ManyCopies, name##_many>(#name "_many")
constexpr HostKernel kKernels[] = {as_host_kernel<FillArguments, dabke_fill>("dabke_fill"),
                                   BOTH_FORMS(dabke_copy),
#define X(id) BOTH_FORMS(dabke_scale_##id),
                                   DABKE_GPU_SCALES(X)
#undef X
#define X(id, wide) BOTH_FORMS(dabke_widen_##id), BOTH_FORMS(dabke_narrow_##id),
                                       DABKE_GPU_WIDTHS(X)
#undef X
};
#undef BOTH_FORMS

}  // namespace

const HostKernel* find_host_kernel(std::string_view name) {
  for (const HostKernel& kernel : kKernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

}  // namespace dabke::test
