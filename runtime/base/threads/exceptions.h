// Exceptions of the standard library as Status values, above all those for lack of memory. Code that handles
// them must need no memory.
#pragma once

#include "runtime/base/status.h"

namespace dabke {

/// "out of memory": so short that std::string stores it, and every copy of it, without allocating.
Status out_of_memory() noexcept;

/// The exception that is being handled, as a Status. Called only in a catch block.
Status caught() noexcept;

/// A copy; without its text if there is no memory for that.
Status copy_of(const Status& status) noexcept;

/// Runs a function that the job can do without; false if it throws.
template <class Function>
bool attempt(Function&& function) noexcept {
  try {
    function();
    return true;
  } catch (...) {
    return false;
  }
}

/// Returns the Status or Result of `function`, or its exception as a Status. For the edges: the C API, a
/// thread's loop, a backend's run. Inside these, exceptions pass.
template <class Function>
auto without_exceptions(Function&& function) noexcept -> decltype(function()) {
  try {
    return function();
  } catch (...) {
    return caught();
  }
}

}  // namespace dabke
