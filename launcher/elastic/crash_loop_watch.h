// Notices when an elastic job only fails again and again: before init, or from commit to commit. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/bootstrap/elastic/epoch_plan.h"

namespace dabke::launcher {

class CrashLoopWatch {
 public:
  /// A process has failed. `failure` describes how.
  void take_failure(const std::string& failure);
  /// A process has come to a meeting, so the program does get there.
  void take_arrival() { early_failures_ = 0; }
  /// Counts the change that `next` is. Returns why the job must end instead; empty: the change is allowed.
  std::string reason_against(const bootstrap::EpochPlan& next);

  /// Failures since a process has come to a meeting.
  int early_failures() const { return early_failures_; }
  /// Empty: there was none.
  const std::string& last_failure() const { return last_failure_; }

 private:
  std::string last_failure_;
  int early_failures_ = 0;
  std::optional<std::uint64_t> commit_at_loss_;  // the newest one
  int losses_without_commit_ = 0;
};

}  // namespace dabke::launcher
