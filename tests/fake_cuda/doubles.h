// How a test takes the doubles for this process's driver and NCCL.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace dabke::test {

/// They become this process's driver and NCCL; called again it does nothing.
Status load_doubles();
/// What they do from now on (fake_cuda.h). `seed`: of random delays; 0: none.
void plan_faults(const std::string& plan, unsigned seed = 0);

std::uint64_t kernels_run(int device);
/// What the double of NCCL knows of memory that is registered.
NcclFigures nccl_figures();

/// Memory of a device of the double, for the tensors of a test: no plan is about it. Null: there is none.
void* allocate_on_double(int device, std::size_t bytes);

/// Faults while it lives.
struct Planned {
  explicit Planned(const std::string& plan, unsigned seed = 0) { plan_faults(plan, seed); }
  ~Planned() { plan_faults(""); }
  Planned(const Planned&) = delete;
  Planned& operator=(const Planned&) = delete;
};

}  // namespace dabke::test
