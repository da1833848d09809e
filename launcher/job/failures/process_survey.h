// A question to all agents for the states of their ranks' processes: the agents that have not answered yet,
// its purposes, and its time limit. Pure.
#pragma once

#include <optional>
#include <set>

#include "runtime/base/clock.h"

namespace dabke::launcher {

class AgentLink;

class ProcessSurvey {
 public:
  enum class Purpose { failure, hang };
  using Purposes = std::set<Purpose>;

  bool is_under_way() const { return survey_.has_value(); }
  /// Begins a survey; only if none is in progress.
  void begin(std::set<const AgentLink*> asked) { survey_ = {std::move(asked), {}, kNever}; }
  /// Adds a purpose to the current survey, which then ends by `limit` at the latest.
  void join(Purpose purpose, TimePoint limit);
  /// Called when the agent has answered, or is lost.
  void strike(const AgentLink& agent);
  TimePoint deadline() const { return survey_ ? survey_->limit : kNever; }
  /// Returns the purposes of the survey once it has ended.
  Purposes take_ended(TimePoint now);

 private:
  struct Survey {
    std::set<const AgentLink*> awaited;
    Purposes purposes;
    TimePoint limit = kNever;
  };
  std::optional<Survey> survey_;
};

}  // namespace dabke::launcher
