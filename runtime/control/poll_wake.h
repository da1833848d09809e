// Wakes the thread that sleeps in the kernel, or is about to, by a flag and an eventfd.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/base/threads/guarded_fd.h"

namespace dabke::control {

class PollWake {
 public:
  Status open(ForkGuard& guard) {
    descriptor_ = GuardedFd(Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), guard);
    return descriptor_ ? Status() : system_error("eventfd", errno);
  }
  /// Readable after kick(), until read().
  int descriptor() const { return descriptor_.get(); }
  void read() {
    std::uint64_t count = 0;
    if (::read(descriptor_.get(), &count, sizeof count) < 0) count = 0;
  }

  /// May be called from any thread. The flag is enough while no thread is in the kernel. One write ends a
  /// sleep, however many threads call. Both exchanges are sequentially consistent, as in prepare_to_sleep(),
  /// so one side sees the other.
  void wake() {
    if (pending_.exchange(true)) return;
    if (asleep_.load() && asleep_.exchange(false)) kick();
  }
  /// Ends the sleep of a thread that is in the kernel, or is about to be.
  void kick() {
    const std::uint64_t one = 1;
    if (::write(descriptor_.get(), &one, sizeof one) < 0) {
      // The counter is full, so it is readable and nothing is missed.
    }
  }

  // By the thread that drives.
  /// True if wake() was called since the last take(). The exchanges here and in wake() order what the caller
  /// did before wake() ahead of what the driver does after poll().
  bool take() { return pending_.load(std::memory_order_relaxed) && pending_.exchange(false); }
  /// Makes the next take() return true.
  void set_pending() { pending_.store(true); }
  /// False if wake() was called meanwhile, so that the thread must not sleep.
  bool prepare_to_sleep() {
    asleep_.store(true);
    return !pending_.load();
  }
  void woken() { asleep_.store(false); }

 private:
  GuardedFd descriptor_;
  std::atomic<bool> pending_{false};
  std::atomic<bool> asleep_{false};  // poll() is, or is about to be, in the kernel
};

}  // namespace dabke::control
