// Calls that run without the interpreter's lock, also when the interpreter ends.
#pragma once

#include <nanobind/nanobind.h>

namespace dabke::python {

/// Releases the interpreter's lock, and counts the calling thread as outside. take_lock() needs the result.
PyThreadState* give_lock_back();

/// Takes the lock again. A thread that is held back stays here until the process ends.
void take_lock(PyThreadState* thread);

/// Runs `call` without the interpreter's lock. No destructor takes the lock again. When an interpreter ends,
/// only its main thread gets the lock. Python before 3.14 unwinds other threads at that point, and this code
/// cannot be unwound.
template <class Call>
auto without_gil(Call call) {
  PyThreadState* const thread = give_lock_back();
  const auto result = call();
  take_lock(thread);
  return result;
}

/// Prepares the end of the interpreter, after the job has been left. Threads that are outside may come back
/// for at most two seconds; later threads are held back for ever. The caller holds the lock, and is not held
/// back.
void hold_back_other_threads();

/// Resets the counts in forked children. A child has only the thread that forked, which is not outside.
/// Called once, at import.
void forget_threads_when_forked();

}  // namespace dabke::python
