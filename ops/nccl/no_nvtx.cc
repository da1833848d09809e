// Where the CUDA Toolkit has no NVTX.
#include "ops/nccl/nvtx.h"

namespace dabke {

Profiler* nvtx_profiler() { return nullptr; }

}  // namespace dabke
