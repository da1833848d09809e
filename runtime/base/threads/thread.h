// Threads of the runtime. They do not inherit signals or the floating-point environment of their starter.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cfenv>
#include <exception>
#include <thread>
#include <utility>

#include "runtime/base/status.h"

namespace dabke {

/// Blocks all signals for the calling thread while it exists, so that threads made meanwhile never receive
/// any: signals belong to the application's threads. Signals that a faulty instruction raises are not
/// blocked: they would end the process without calling the application's handler.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t set;
    sigfillset(&set);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      sigdelset(&set, fault);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// The reason why the thread `name` could not be made: the limits of this process, or memory.
Status cannot_start_thread(const char* name, const std::exception& error);

/// A thread of the runtime: named, with signals blocked and the default floating-point environment. `name` is
/// a literal of at most 15 characters.
template <class Function>
Result<std::jthread> start_thread(const char* name, Function function) {
  const AllSignalsBlocked blocked;
  try {
    return std::jthread([name, function = std::move(function)]() mutable {
      pthread_setname_np(pthread_self(), name);
      std::fesetenv(FE_DFL_ENV);
      function();
    });
  } catch (const std::exception& error) {
    return cannot_start_thread(name, error);
  }
}

}  // namespace dabke
