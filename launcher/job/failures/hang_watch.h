// The dumps of ranks that hang or fail, gathered until a verdict can be reached. Pure: the caller passes the
// time.
//
// Ranks send dumps when a rank stalls or the job fails. All dumps of one cause have the same incident number.
// A verdict is due when every rank has sent a dump, or 2 s after the first.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/job/job_ranks.h"
#include "runtime/base/clock.h"
#include "runtime/base/world.h"
#include "runtime/diagnosis/dumps/dump.h"

namespace dabke::launcher {

class HangWatch {
 public:
  using Verdict = std::vector<std::string>;  // lines
  /// `on_verdict` gets each verdict that differs from the last in more than its times.
  explicit HangWatch(std::function<void(const Verdict&)> on_verdict) : on_verdict_(std::move(on_verdict)) {}

  /// Judges at once if all dumps have come.
  void take(std::vector<diagnosis::Dump> dumps, const JobRanks& ranks, TimePoint now);
  /// Called when the job fails and its ranks are about to be ended: their current states are the ones that
  /// count.
  void note_failure(const JobRanks& ranks);
  /// The time to call judge(); empty if there is nothing to judge.
  std::optional<TimePoint> judge_at() const { return judge_at_; }
  void judge(const JobRanks& ranks);

 private:
  void take(diagnosis::Dump dump, const JobRanks& ranks, TimePoint now);
  std::map<Rank, std::string> silent_ranks(const JobRanks& ranks);

  const std::function<void(const Verdict&)> on_verdict_;
  std::map<Rank, diagnosis::Dump> dumps_;  // all of one incident
  std::uint64_t incident_ = 0;
  std::optional<TimePoint> judge_at_;  // later dumps are not waited for
  Verdict last_;                       // with all times 0
  /// The states of the processes that had not ended when the job failed.
  std::map<Rank, std::string> states_at_failure_;
};

}  // namespace dabke::launcher
