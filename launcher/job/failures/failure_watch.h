// Finds the rank whose end caused the end of the job, and when that is clear. Pure: the caller passes the
// time.
//
// 1. A rank fails. Others that fail with it are reported in any order, so nothing is decided for 10 ms:
//    look_at().
// 2. The caller then asks for the states of the processes that still run: begin_look().
// 3. When it has them, or has waited long enough, it calls settle(). The failure stays open in three cases.
//    look_at() is then the time of the next check.
//    - A rank is in the middle of ending, or is blamed by others and still runs: at most 500 ms after the
//      failure.
//    - A rank was killed after srun, and its agent is not lost yet: at most 500 ms after the failure.
//    - A rank that others blame may end by itself: at most 3 s after the failure.
// 4. Otherwise settle() returns the failure, once.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/job/job_ranks.h"
#include "launcher/verdict/outcome.h"
#include "runtime/base/clock.h"
#include "runtime/base/world.h"

namespace dabke::launcher {

class FailureWatch {
 public:
  /// Takes a line of a rank's stderr, which may blame another rank.
  void take_error_line(Rank speaker, std::string_view line);
  void take_end(RankEnd end, TimePoint now);
  /// Slurm kills the processes that a killed srun has started. An agent may have reported such ends of its
  /// ranks (`is_of_agent`) before it was killed itself. Those ends count as the loss of the agent.
  void blame_srun(const std::function<bool(Rank)>& is_of_agent);
  /// Called when the job ends for another reason: settle() returns nothing from here on.
  void close() { is_closed_ = true; }
  /// True if a failure was settled, or the job ends for another reason.
  bool is_closed() const { return is_closed_; }

  /// The time to call begin_look(); empty if there is no open failure, or a check is in progress.
  std::optional<TimePoint> look_at() const { return look_at_; }
  /// Returns the time until which the caller waits for the states of processes before it calls settle().
  TimePoint begin_look(TimePoint now);
  /// Returns the first failure, once it is clear, if other ranks still run. `is_srun_killed`: srun was
  /// killed, so the loss of its agents is still to come.
  std::optional<RankEnd> settle(const JobRanks& ranks, TimePoint now, bool is_srun_killed = false);

  /// All ends so far, in the order of their reports, with the other ranks' blame.
  std::vector<RankEnd> ends() const;

 private:
  bool is_open(const JobRanks& ranks, TimePoint now, bool is_srun_killed);
  bool has_kill_from_outside() const;
  bool is_somebody_ending(const JobRanks& ranks) const;
  bool is_blamed_awaited(const JobRanks& ranks) const;

  std::vector<RankEnd> ends_;
  // The blamed ranks, each with the first text that blames it.
  std::map<Rank, std::string> blamed_;
  std::map<Rank, Rank> blamed_first_;  // by the blaming rank
  std::optional<TimePoint> look_at_;
  TimePoint ending_limit_{};  // the limit for ranks that are ending
  TimePoint blamed_limit_{};  // the same for a rank that others name as the cause
  bool is_closed_ = false;
};

}  // namespace dabke::launcher
