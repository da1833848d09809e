#include "bindings/python/core/interpreter/gil.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace dabke::python {
namespace {

/// Guarded by the interpreter's lock: threads that have given it back and not taken it again.
int outside = 0;
/// Threads that are about to take the lock and have seen that they are not held back.
std::atomic<int> returning{0};
/// The thread that ends the interpreter; 0 until it does.
std::atomic<unsigned long> ending_thread{0};

bool is_held_back() {
  const unsigned long ending = ending_thread.load();
  return ending != 0 && ending != PyThread_get_thread_ident();
}

/// Lets the threads that want the lock have it.
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
  // Counted before it looks, so that hold_back_other_threads sees it or it sees that.
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
