// Where threads that run are: a few samples by the kernel's performance events, which disturb no system call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/diagnosis/stacks/frames.h"

namespace dabke::diagnosis {

struct ThreadSample {
  std::string error;                     // why there are none; empty: they were taken
  std::vector<std::uintptr_t> counters;  // program counters, the oldest first; none: the thread did not run
  UserRegisters last;                    // the last sample's
  std::vector<std::byte> stack;          // and what lay on its stack, from the stack pointer on
};

/// One for each thread of this process that is named, all within some 20 ms.
std::vector<ThreadSample> sample_threads(const std::vector<int>& threads);

}  // namespace dabke::diagnosis
