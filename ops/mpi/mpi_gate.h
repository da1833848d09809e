// The application may call MPI_Finalize while threads of ours still use MPI, and the first call after that
// ends the process with MPI's own words. So MPI_Finalize, by an attribute of MPI_COMM_SELF that it deletes
// first of all, closes this gate, and each call of ours goes through it.
#pragma once

#include <sched.h>

#include <atomic>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace dabke::ops {

class MpiGate {
 public:
  /// Keeps MPI there while it lives; false: MPI is not there, and must not be called.
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
  /// Closes for good. Returns when nobody is inside any more, or after a while: then MPI_Finalize meets a
  /// call of ours.
  void close() {
    constexpr auto kLongest = std::chrono::seconds(5);
    const TimePoint limit = Clock::now() + kLongest;
    is_closed_.store(true);
    while (inside_.load() > 0 && Clock::now() < limit) ::sched_yield();
  }

  /// What a call that came too late says.
  static Status is_over() {
    return {Code::aborted, "MPI_Finalize has been called; call dabke_shutdown before"};
  }

 private:
  std::atomic<int> inside_{0};
  std::atomic<bool> is_closed_{false};
};

}  // namespace dabke::ops
