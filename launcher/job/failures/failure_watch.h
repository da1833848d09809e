// Which rank's end a job ends of, and when that is clear. Pure: the caller passes the time.
//
// 1. A rank fails. Others that fail with it are reported in any order, so nothing is decided for 10 ms:
//    look_at().
// 2. The caller then asks for the states of the processes that still run: begin_look().
// 3. When it has them, or has waited long enough, it calls settle(). The failure stays open as long as
//    - a rank is in the middle of ending, or is blamed by others and still runs: 500 ms after the failure at
//      most;
//    - a rank that others blame may end by itself: 3 s after the failure at most.
//    look_at() is then the next look.
// 4. Otherwise settle() returns the failure, once.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/job/failures/failure_policy.h"
#include "launcher/job/job_ranks.h"
#include "launcher/verdict/outcome.h"
#include "runtime/base/clock.h"
#include "runtime/base/world.h"

namespace dabke::launcher {

class FailureWatch {
 public:
  /// Borrowed.
  explicit FailureWatch(const FailurePolicy& policy) : policy_(policy) {}

  /// A line of a rank's stderr, which may blame another rank.
  void take_error_line(Rank speaker, std::string_view line);
  void take_end(RankEnd end, TimePoint now);
  /// Slurm kills what a killed srun has started, and an agent may have reported that of its ranks
  /// (`is_of_agent`) before it was killed itself: those ends count as the loss of the agent.
  void blame_srun(const std::function<bool(Rank)>& is_of_agent);
  /// The job ends for another reason: settle() returns nothing from here on.
  void close() { is_closed_ = true; }
  /// A failure was settled, or the job ends for another reason.
  bool is_closed() const { return is_closed_; }

  /// When to call begin_look(); empty: there is no open failure, or a look is under way.
  std::optional<TimePoint> look_at() const { return look_at_; }
  /// Until when the caller waits for the states of processes before it calls settle().
  TimePoint begin_look(TimePoint now);
  /// The first failure, once it is clear, where other ranks are to be ended because of it.
  std::optional<RankEnd> settle(const JobRanks& ranks, TimePoint now);

  /// All so far, in the order in which they were reported, with what other ranks say of them.
  std::vector<RankEnd> ends() const;

 private:
  bool is_open(const JobRanks& ranks, TimePoint now);
  bool is_somebody_ending(const JobRanks& ranks) const;
  bool is_blamed_awaited(const JobRanks& ranks) const;

  const FailurePolicy& policy_;
  std::vector<RankEnd> ends_;
  std::map<Rank, std::string> blamed_;  // those that other ranks blame, and what the first says of each
  std::map<Rank, Rank> blamed_first_;   // by those that blame
  std::optional<TimePoint> look_at_;
  TimePoint ending_limit_{};  // how long ranks that are ending are waited for
  TimePoint blamed_limit_{};  // the same for a rank that others name as the cause
  bool is_closed_ = false;
};

}  // namespace dabke::launcher
