#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace dabke {

/// A thread of the runtime: named, and with every signal blocked, because signals belong to the application's
/// threads.
template <class Function>
std::jthread start_thread(const char* name, Function function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::jthread thread(std::move(function));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace dabke
