// Which failure is the first cause, of several that this rank sees at once.
//
// A run that fails because a peer died often fails here before the peer's death is known. So what fails here waits
// a moment for the job's cause, and ends with that; when none comes, its own failure is the cause. It does not wait
// where a run has found out by itself what is wrong.
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
  /// What the calls that failed end with.
  struct Verdict {
    std::vector<FailedCall> calls;
    Status cause;
    bool is_new = false;    // the job knows of no failure yet: the first of `calls` is its cause
    std::size_t first = 0;  // among `calls`
  };

  /// False where there is no memory to note it: the call is then nobody's, and only in the table of outstanding ones.
  bool note(std::unique_ptr<NegotiatedCall> call, const Status& status) noexcept;
  /// Whether calls wait for their verdict.
  bool has_failures() const { return has_failures_; }
  /// Whether nobody has looked at some of them yet.
  bool has_news() { return has_failures() && is_new(); }
  /// Nothing when there is none, or it is too early. `over`: how the job has ended, if it has.
  std::optional<Verdict> judge(TimePoint now, const Status* over);
  /// When judge() knows at the latest. The driver's.
  TimePoint deadline();
  /// Leaves the calls that wait to whoever has the table. Needs no memory.
  void forget_all();

  /// A step could not be done, for want of memory as a rule, and what it was in the middle of may be half done.
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
