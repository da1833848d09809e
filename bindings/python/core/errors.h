// How a status of the C API becomes a Python exception, and how a thread gets the interpreter's lock back.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "dabke/dabke.h"

namespace dabke::python {

namespace nb = nanobind;

/// Throws the class of dabke.errors that stands for `status`, with `text`.
[[noreturn]] void raise(dabke_status status, const std::string& text);

/// Throws for anything but success, with the text of the calling thread's last failed call.
inline void check(dabke_status status) {
  if (status != DABKE_OK) raise(status, dabke_last_error());
}

/// Runs `call` without the interpreter's lock. No destructor takes the lock back: in an interpreter that ends,
/// other threads than the main one never get it, and Python before 3.14 unwinds them, which nothing here survives.
template <class Call>
auto without_gil(Call call) {
  PyThreadState* const thread = PyEval_SaveThread();
  const auto result = call();
  PyEval_RestoreThread(thread);
  return result;
}

}  // namespace dabke::python
