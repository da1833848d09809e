// Finds the positions of running threads by a few samples of the kernel's performance events. This
// disturbs no system call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/diagnosis/stacks/frames.h"

namespace dabke::diagnosis {

struct ThreadSample {
  std::string error;                     // the reason why there are no samples; empty if there are
  std::vector<std::uintptr_t> counters;  // program counters, oldest first; empty if the thread did not run
  UserRegisters last;                    // the registers of the last sample
  std::vector<std::byte> stack;          // the stack at the last sample, from the stack pointer on
};

/// Returns a result for each of `threads`, which must be threads of this process. Takes about 20 ms for all.
std::vector<ThreadSample> sample_threads(const std::vector<int>& threads);

}  // namespace dabke::diagnosis
