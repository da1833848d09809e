// The end of the ranks of a job: the commands that end them, and the steps if a rank does not end.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "launcher/job/agents/job_agents.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {

class JobEnding {
 public:
  /// `grace` is the time from SIGTERM to SIGKILL, as the supervisors use it.
  JobEnding(JobAgents& agents, std::chrono::milliseconds grace) : agents_(agents), grace_(grace) {}

  /// True if ranks that end from now on may have been ended by dabkerun.
  bool is_under_way() const { return is_under_way_; }
  /// Sends ranks a signal on which they end by themselves. Ranks that still run after `grace` are killed.
  void interrupt(std::int32_t command, std::chrono::milliseconds grace, TimePoint now);
  /// Makes supervisors end their ranks: Command::kEnd or kKill. Agents that do not answer are killed in the
  /// end.
  void end(std::int32_t command, TimePoint now);

  TimePoint deadline() const;
  void tick(TimePoint now);

 private:
  JobAgents& agents_;
  const std::chrono::milliseconds grace_;
  bool is_under_way_ = false;
  std::optional<TimePoint> kill_at_;     // ranks that got a signal and still run
  std::optional<TimePoint> abandon_at_;  // agents that do not answer
};

}  // namespace dabke::launcher
