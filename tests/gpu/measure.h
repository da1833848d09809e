// Figures of a CUDA device, a line each: "figure: WHAT | HOW MUCH".
#pragma once

#include <cstddef>

namespace dabke::test {

/// What the kernels move in a second against a copy within the device, and a fused allreduce among the ranks of the job
/// against raw NCCL of the same bytes and the two copies. `bytes`: of all tensors together. The exit code.
int measure(std::size_t bytes);

}  // namespace dabke::test
