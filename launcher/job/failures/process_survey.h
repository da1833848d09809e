// A question to all agents for the states of their ranks' processes: who has not answered yet, what it is
// for, and how long it is waited for. Pure.
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
  /// Only when none is under way.
  void begin(std::set<const AgentLink*> asked) { survey_ = {std::move(asked), {}, kNever}; }
  /// The survey that is under way is for this, too, and ends by `limit` at the latest.
  void join(Purpose purpose, TimePoint limit);
  /// The agent has answered, or is lost.
  void strike(const AgentLink& agent);
  TimePoint deadline() const { return survey_ ? survey_->limit : kNever; }
  /// What it was for, once it has ended.
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
