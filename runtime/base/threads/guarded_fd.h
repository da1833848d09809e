// A descriptor that a forked child of this process closes.
#pragma once

#include <utility>

#include "runtime/base/threads/fork_guard.h"
#include "runtime/base/threads/owned.h"

namespace dabke {

/// Owns a descriptor, and keeps it in the fork guard's table while it is open. The guard must outlive it.
class GuardedFd {
 public:
  GuardedFd() = default;
  GuardedFd(Fd fd, ForkGuard& guard) : fd_(std::move(fd)), guard_(&guard) {
    if (fd_) guard.add(fd_.get());
  }
  GuardedFd(GuardedFd&& other) noexcept = default;
  GuardedFd& operator=(GuardedFd&& other) noexcept {
    reset();
    fd_ = std::move(other.fd_);
    guard_ = other.guard_;
    return *this;
  }
  ~GuardedFd() { reset(); }

  int get() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  /// Removes the descriptor from the table before closing it: another file may get its number after that, and
  /// a forked child must not close that file.
  void reset() {
    if (fd_) guard_->remove(fd_.get());
    fd_ = Fd();
  }

 private:
  Fd fd_;
  ForkGuard* guard_ = nullptr;
};

}  // namespace dabke
