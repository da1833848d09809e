// Ranges for the profiler of the CUDA Toolkit, by NVTX.
#pragma once

#include "runtime/backend/device.h"

namespace dabke::ops {

/// In a domain "dabke". Null where no profiler is attached, or the build has found no NVTX. NVTX looks for a profiler
/// once, here: nothing else of it is called without one, and nothing of it is linked.
Profiler* nvtx_profiler();

}  // namespace dabke::ops
