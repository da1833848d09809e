// Calls that go on without the interpreter's lock, and what becomes of them when the interpreter ends.
#pragma once

#include <nanobind/nanobind.h>

namespace dabke::python {

/// Gives the interpreter's lock back and counts the calling thread as one that is outside. For take_lock.
PyThreadState* give_lock_back();

/// Takes the lock again. A thread that is held back stays here until the process has ended.
void take_lock(PyThreadState* thread);

/// Runs `call` without the interpreter's lock. No destructor takes the lock: other threads than the main one do
/// not get that of an interpreter that ends, and Python before 3.14 unwinds them there, which nothing here survives.
template <class Call>
auto without_gil(Call call) {
  PyThreadState* const thread = give_lock_back();
  const auto result = call();
  take_lock(thread);
  return result;
}

/// For the end of the interpreter, when the job has been left: lets the threads that are outside come back, for at
/// most two seconds, and holds back for ever those that come later. The caller, who holds the lock, is not held back.
void hold_back_other_threads();

/// A child has but the thread that forked, which is not outside. Once, at import.
void forget_threads_when_forked();

}  // namespace dabke::python
