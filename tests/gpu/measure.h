// Figures of a CUDA device, a line each: "figure: WHAT | HOW MUCH".
#pragma once

#include <cstddef>

namespace dabke::test {

/// Measures two figures, and returns the exit code. `bytes` is the size of all tensors together.
/// - the bytes that the kernels move in a second, compared with a copy within the device
/// - a fused allreduce among the ranks of the job, compared with raw NCCL of the same bytes and the two
///   copies
int measure(std::size_t bytes);

}  // namespace dabke::test
