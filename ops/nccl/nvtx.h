// Ranges for the profiler of the CUDA Toolkit, by NVTX.
#pragma once

#include "runtime/backend/device.h"

namespace dabke::ops {

/// Returns a profiler whose ranges are in the domain "dabke". Null if no profiler is attached, or if the
/// build has found no NVTX. NVTX searches for a profiler once, in this call. Without a profiler, no other
/// function of NVTX is called; nothing of NVTX is linked.
Profiler* nvtx_profiler();

}  // namespace dabke::ops
