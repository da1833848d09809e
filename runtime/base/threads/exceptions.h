// What the standard library throws, as errors: for want of memory, above all. What handles it must not need
// any.
#pragma once

#include "runtime/base/status.h"

namespace dabke {

/// "out of memory". Short enough for std::string to hold it, and every copy of it, without memory.
Status out_of_memory() noexcept;

/// What was thrown. Called in a catch block.
Status caught() noexcept;

/// A copy; without its text where there is no memory for it.
Status copy_of(const Status& status) noexcept;

/// Does what the job can do without; false when it could not.
template <class Function>
bool attempt(Function&& function) noexcept {
  try {
    function();
    return true;
  } catch (...) {
    return false;
  }
}

/// The Status or Result of `function`, or what it threw. For the edges: the C API, a thread's loop, a
/// backend's run. Within, exceptions pass.
template <class Function>
auto without_exceptions(Function&& function) noexcept -> decltype(function()) {
  try {
    return function();
  } catch (...) {
    return caught();
  }
}

}  // namespace dabke
