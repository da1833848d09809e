// The application may call MPI_Finalize while threads of ours still use MPI. The next call of MPI would then
// end the process with an error of MPI's. So each of our calls goes through this gate. MPI_Finalize closes
// it, through an attribute of MPI_COMM_SELF that it deletes before anything else.
#pragma once

#include <sched.h>

#include <atomic>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace dabke::ops {

class MpiGate {
 public:
  /// Keeps MPI usable during its lifetime. False: MPI is finalised and must not be called.
  class Pass {
   public:
    explicit Pass(std::atomic<int>* inside) : inside_(inside) {}
    Pass(Pass&& other) noexcept : inside_(std::exchange(other.inside_, nullptr)) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (inside_ != nullptr) inside_->fetch_sub(1);
    }
    explicit operator bool() const { return inside_ != nullptr; }

   private:
    std::atomic<int>* inside_;
  };

  Pass enter() {
    inside_.fetch_add(1);
    Pass pass(&inside_);
    return is_closed_.load() ? Pass(nullptr) : std::move(pass);
  }
  /// Closes the gate for good. Returns when no call is inside any more, or after a time limit; then
  /// MPI_Finalize may collide with a call of ours.
  void close() {
    constexpr auto kLongest = std::chrono::seconds(5);
    const TimePoint limit = Clock::now() + kLongest;
    is_closed_.store(true);
    while (inside_.load() > 0 && Clock::now() < limit) ::sched_yield();
  }

  /// Returns the error of a call after the gate has closed.
  static Status is_over() {
    return {Code::aborted, "MPI_Finalize has been called; call dabke_shutdown before"};
  }

 private:
  std::atomic<int> inside_{0};
  std::atomic<bool> is_closed_{false};
};

}  // namespace dabke::ops
