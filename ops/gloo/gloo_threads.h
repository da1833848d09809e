// Signals and Gloo: its threads must take none, and its writes to a closed connection must not end the
// process.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace dabke {

/// While it lives, the calling thread takes no signals, so threads made meanwhile never will. Not blocked are
/// those that a faulty instruction raises: they would end the process without the application's handler.
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

/// While it lives, the calling thread gets EPIPE and no SIGPIPE: Gloo sends from the thread that runs a
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

}  // namespace dabke
