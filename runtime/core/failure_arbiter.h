// Chooses the first cause among several failures that this rank sees at once.
//
// A run that fails because a peer died often fails before the peer's death is known on this rank. So a failed
// run waits a moment for the job's cause, and ends with that cause. If none comes, the run's own failure is
// the cause. A run that has found out by itself what is wrong does not wait.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/operation/negotiated_call.h"

namespace dabke::core {

/// A call whose run has failed.
struct FailedCall {
  std::unique_ptr<NegotiatedCall> call;
  Status status;
};

/// May be used from any thread.
class FailureArbiter {
 public:
  /// The decision on the calls that failed: they end with `cause`.
  struct Verdict {
    std::vector<FailedCall> calls;
    Status cause;
    bool is_new = false;    // the job has not failed yet: calls[first] is its cause
    std::size_t first = 0;  // index in `calls`
  };

  /// False if there is no memory to note the call. The call then has no owner, and is only in the table of
  /// outstanding calls.
  bool note(std::unique_ptr<NegotiatedCall> call, const Status& status) noexcept;
  /// True if calls wait for their verdict.
  bool has_failures() const { return has_failures_; }
  /// True if calls wait and judge() was not called since the first of them came.
  bool has_news() { return has_failures() && is_new(); }
  /// Returns nothing if there is no failed call, or if it is too early. `over` is the end of the job; null if
  /// it has not ended.
  std::optional<Verdict> judge(TimePoint now, const Status* over);
  /// The latest time at which judge() decides. For the driver only.
  TimePoint deadline();
  /// Leaves the waiting calls to the owner of the table of calls. Needs no memory.
  void forget_all();

  /// Called when a step could not be done, usually for lack of memory. The step may be half done.
  void break_off(Status cause) noexcept;
  bool is_broken() const { return is_broken_; }
  Status take_break_cause();

 private:
  bool is_new();

  std::atomic<bool> has_failures_{false};  // written under the mutex
  std::mutex mutex_;
  std::vector<FailedCall> failed_;
  TimePoint since_ = kNever;
  Status broken_by_;
  std::atomic<bool> is_broken_{false};
};

}  // namespace dabke::core
