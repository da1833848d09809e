// The reports of a rank on its job: flight recorder, statistics, profile and timeline while the job runs, and
// dumps. Also finds batches that take too long.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/deadlines.h"
#include "runtime/base/settings/config.h"
#include "runtime/control/control_channel.h"
#include "runtime/diagnosis/live/job_figures.h"
#include "runtime/diagnosis/reporter.h"
#include "runtime/lanes/lanes.h"
#include "runtime/negotiation/negotiator.h"
#include "runtime/operation/outstanding_calls.h"
#include "runtime/reports/statistics.h"
#include "runtime/reports/timeline_switch.h"

namespace dabke::core {

class JobReports {
 public:
  struct Parts {
    const Config& config;
    const std::vector<std::string>& hosts;  // by rank
    reports::Statistics& statistics;
    reports::Profile& profile;
    diagnosis::FlightRecorder& recorder;
    diagnosis::Reporter& reporter;
    Log log;
    reports::TimelineSwitch& timeline;
  };

  /// All referenced objects outlive it. The thread that drives runs `deadlines`.
  JobReports(Parts parts, Deadlines& deadlines, const control::ControlChannel& channel,
             negotiation::Negotiator& negotiator, const OutstandingCalls& calls, lanes::Lanes& lanes);

  /// Counts an accepted call with `tensors` tensors. From any thread.
  void note_call(std::size_t tensors) { parts_.statistics.tensors_submitted += tensors; }

  // ---- by the lanes, on the thread that runs the batch
  void batch_starts(const lanes::Run& run);
  void batch_ran(const lanes::Run& run, const reports::BatchReport& batch, const Status& status);

  // ---- by the coordinator's driver
  void submitted(const Request& request, TimePoint at);
  /// Records a request that failed before it had an order. Does nothing if `status` is ok.
  void refused(const Request& request, const Status& status);
  /// Records an order, and stores its time in the operations.
  void ordered(const negotiation::ExecuteAction& action, TimePoint now);
  void completed(std::size_t tensors, bool is_well);
  void message_sent() { ++parts_.statistics.messages_sent; }
  void message_received() { ++parts_.statistics.messages_received; }
  void warned(const negotiation::WarnAction& warning);
  /// Logs the error that ended the job. Only its first line if the launcher reports where its ranks are.
  void failed(const Status& cause);
  /// Null if no timeline is written.
  const std::shared_ptr<timeline::Timeline>& timeline() const { return parts_.timeline.current(); }
  void change_timeline(const wire::TimelineChange& change);
  /// Asks all ranks to stop the timeline once this rank's file is nearly full. Called before anything more is
  /// submitted to the negotiation.
  void stop_timeline_at_limit(TimePoint now);
  void job_is_over(const Status& cause) noexcept { parts_.timeline.job_is_over(cause); }
  /// Records the readiness that the negotiation has seen since the last call. Called before the orders that
  /// follow from it.
  void take_readiness();
  void take_profile();

  diagnosis::Dump describe(std::string reason, TimePoint now) {
    return describe(std::move(reason), 0, negotiator_.snapshot(), now);
  }
  void dump(const negotiation::DumpAction& action, TimePoint now);
  /// Returns what this rank is doing, for live statistics.
  RankFigures figures(TimePoint now) const;
  /// Root only. Returns the figures that all ranks have sent, and rank 0's own figures about each rank.
  diagnosis::JobFigures job_figures(TimePoint now) const;
  /// Asks for the places of this rank's threads. `answer` may be called on any thread.
  void give_places(std::function<void(std::string text)> answer, TimePoint now);

 private:
  void compare_clocks(TimePoint now);
  void look_for_long_runs(TimePoint now);
  diagnosis::Dump describe(std::string reason, std::uint64_t incident, const negotiation::Snapshot& snapshot,
                           TimePoint now) const;
  void note_timeline();
  std::optional<negotiation::Negotiator::Running> running_batch() const;

  Parts parts_;
  const control::ControlChannel& channel_;
  negotiation::Negotiator& negotiator_;
  const OutstandingCalls& calls_;
  lanes::Lanes& lanes_;
  std::uint64_t timelines_ = 0;  // started so far
  std::uint64_t submitted_ = 0;  // operations
  TimePoint last_submit_{};
  Deadline next_run_check_;  // set while there is a batch in a lane
  Deadline next_clock_;      // of the parent's clock, for the timeline, while the parent is on another host
};

}  // namespace dabke::core
