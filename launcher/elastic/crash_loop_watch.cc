#include "launcher/elastic/crash_loop_watch.h"

#include <algorithm>

#include <fmt/format.h>

namespace dabke::launcher {
namespace {

/// Changes that lose a member, with no commit between them, that end a job.
constexpr int kMostLossesWithoutCommit = 3;

}  // namespace

void CrashLoopWatch::take_failure(const std::string& failure) {
  last_failure_ = failure;
  ++early_failures_;
}

std::string CrashLoopWatch::reason_against(const bootstrap::EpochPlan& next) {
  if (next.epoch == 1 || next.lost.empty()) return "";
  const auto newest = next.newest_commit();
  losses_without_commit_ = newest > commit_at_loss_ ? 1 : losses_without_commit_ + 1;
  commit_at_loss_ = std::max(commit_at_loss_, newest);
  if (losses_without_commit_ < kMostLossesWithoutCommit) return "";
  return fmt::format("ranks were lost {} times without a commit between; the last: {}",
                     losses_without_commit_, next.lost.back().why);
}

}  // namespace dabke::launcher
