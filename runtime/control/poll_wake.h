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
  /// Readable after a kick, until read().
  int descriptor() const { return descriptor_.get(); }
  void read() {
    std::uint64_t count = 0;
    if (::read(descriptor_.get(), &count, sizeof count) < 0) count = 0;
  }

  /// From any thread. The flag is enough while nobody is in the kernel; and one write ends a sleep, however
  /// many call. Both are sequentially consistent, as in prepare_to_sleep(): one side sees the other.
  void wake() {
    if (pending_.exchange(true)) return;
    if (asleep_.load() && asleep_.exchange(false)) kick();
  }
  /// Whoever sleeps in the kernel, or is about to, comes out of it.
  void kick() {
    const std::uint64_t one = 1;
    if (::write(descriptor_.get(), &one, sizeof one) < 0) {
      // The counter is full: then it is readable, and nothing is missed.
    }
  }

  // By whoever drives.
  /// Whether wake() was called since. The exchanges here and in wake() order what the caller did before
  /// wake() ahead of what the driver does after poll().
  bool take() { return pending_.load(std::memory_order_relaxed) && pending_.exchange(false); }
  /// The next take() returns true.
  void set_pending() { pending_.store(true); }
  /// False: somebody has called wake() meanwhile, and nobody may sleep.
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
