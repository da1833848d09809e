#include "bindings/python/core/interpreter/gil.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace dabke::python {
namespace {

/// The number of threads that have released the lock and not taken it again. Guarded by the interpreter's
/// lock.
int outside = 0;
/// The number of threads that are about to take the lock and are not held back.
std::atomic<int> returning{0};
/// The thread that ends the interpreter; 0 before the end.
std::atomic<unsigned long> ending_thread{0};

bool is_held_back() {
  const unsigned long ending = ending_thread.load();
  return ending != 0 && ending != PyThread_get_thread_ident();
}

/// Gives other threads a chance to take the lock.
void let_others_run() {
  PyThreadState* const thread = PyEval_SaveThread();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(thread);
}

}  // namespace

PyThreadState* give_lock_back() {
  ++outside;
  return PyEval_SaveThread();
}

void take_lock(PyThreadState* thread) {
  // The thread is counted before it reads ending_thread. So hold_back_other_threads sees this thread, or this
  // thread sees that it is held back.
  ++returning;
  if (is_held_back()) {
    --returning;
    for (;;) ::pause();
  }
  PyEval_RestoreThread(thread);
  --returning;
  --outside;
}

void hold_back_other_threads() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (outside > 0 && std::chrono::steady_clock::now() < deadline) let_others_run();
  ending_thread = PyThread_get_thread_ident();
  while (returning > 0) let_others_run();
}

void forget_threads_when_forked() {
  ::pthread_atfork(nullptr, nullptr, [] {
    outside = 0;
    returning = 0;
  });
}

}  // namespace dabke::python
