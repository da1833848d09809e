// Signals and Gloo: its threads must take none (AllSignalsBlocked), and its writes to a closed connection
// must not end the process.
#pragma once

#include <pthread.h>
#include <signal.h>

#include "runtime/base/threads/thread.h"

namespace dabke::ops {

/// Gives the calling thread EPIPE and no SIGPIPE while it lives: Gloo sends from the thread that runs a
/// collective, by plain writev.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeBlocked() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    constexpr timespec kNow = {};
    if (!was_pending_)
      sigtimedwait(&sigpipe_, nullptr, &kNow);  // one of ours, or none: unblocked it would be delivered
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t sigpipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace dabke::ops
