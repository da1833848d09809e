// For a CUDA Toolkit without NVTX.
#include "ops/nccl/nvtx.h"

namespace dabke::ops {

Profiler* nvtx_profiler() { return nullptr; }

}  // namespace dabke::ops
