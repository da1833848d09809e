// The end of the ranks of a job: how they are told to end, and what is done about those that do not.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "launcher/job/agents/job_agents.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {

class JobEnding {
 public:
  /// `grace`: from SIGTERM to SIGKILL, as the supervisors have it.
  JobEnding(JobAgents& agents, std::chrono::milliseconds grace) : agents_(agents), grace_(grace) {}

  /// What ends from now on may have been ended by dabkerun.
  bool is_under_way() const { return is_under_way_; }
  /// Ranks are sent a signal on which they end by themselves. Those that still run `grace` later are killed.
  void interrupt(std::int32_t command, std::chrono::milliseconds grace, TimePoint now);
  /// Supervisors end their ranks: Command::kEnd or kKill. Agents that do not answer are killed in the end.
  void end(std::int32_t command, TimePoint now);

  TimePoint deadline() const;
  void tick(TimePoint now);

 private:
  JobAgents& agents_;
  const std::chrono::milliseconds grace_;
  bool is_under_way_ = false;
  std::optional<TimePoint> kill_at_;     // ranks that had a signal forwarded and still run
  std::optional<TimePoint> abandon_at_;  // agents that do not answer
};

}  // namespace dabke::launcher
