#include "launcher/job/job_ending.h"

#include <algorithm>

#include "launcher/process/supervisor.h"

namespace dabke::launcher {
namespace {

/// Added to the time in which an agent abandons its supervisors, so that agents do so first.
constexpr std::chrono::seconds kAfterAgents{2};

}  // namespace

void JobEnding::interrupt(std::int32_t command, std::chrono::milliseconds grace, TimePoint now) {
  is_under_way_ = true;
  agents_.command(command);
  kill_at_ = now + grace;
}

void JobEnding::end(std::int32_t command, TimePoint now) {
  is_under_way_ = true;
  agents_.command(command);
  kill_at_.reset();
  if (!abandon_at_) abandon_at_ = now + abandon_after(grace_) + kAfterAgents;
}

TimePoint JobEnding::deadline() const {
  return std::min(kill_at_.value_or(kNever), abandon_at_.value_or(kNever));
}

void JobEnding::tick(TimePoint now) {
  if (kill_at_ && now >= *kill_at_) end(Command::kKill, now);
  if (abandon_at_ && now >= *abandon_at_) {
    agents_.kill();
    abandon_at_.reset();
  }
}

}  // namespace dabke::launcher
