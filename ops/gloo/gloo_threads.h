// Signals and Gloo. Gloo's threads must receive no signals (AllSignalsBlocked), and a write to a closed
// connection must not end the process.
#pragma once

#include <pthread.h>
#include <signal.h>

#include "runtime/base/threads/thread.h"

namespace dabke::ops {

/// Gives the calling thread EPIPE instead of SIGPIPE during the lifetime of this object. Gloo sends with
/// plain writev, on the thread that runs a collective.
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
      sigtimedwait(&sigpipe_, nullptr, &kNow);  // ours, if there is one: unblocked, it would be delivered
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
