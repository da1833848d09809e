// Loads the test doubles as this process's CUDA driver and NCCL.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace dabke::test {

/// Makes the doubles this process's driver and NCCL. A second call does nothing.
Status load_doubles();
/// Sets the faults from now on; fake_cuda.h documents the plan. `seed` is
/// that of random delays; 0: no delays.
void plan_faults(const std::string& plan, unsigned seed = 0);

std::uint64_t kernels_run(int device);
/// The figures of the fake NCCL about registered memory.
NcclFigures nccl_figures();

/// Memory of a fake device for the tensors of a test. No plan refuses it. Returns null if there is none left.
void* allocate_on_double(int device, std::size_t bytes);

/// Plans faults as long as it lives.
struct Planned {
  explicit Planned(const std::string& plan, unsigned seed = 0) { plan_faults(plan, seed); }
  ~Planned() { plan_faults(""); }
  Planned(const Planned&) = delete;
  Planned& operator=(const Planned&) = delete;
};

}  // namespace dabke::test
