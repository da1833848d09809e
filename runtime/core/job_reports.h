// What a rank tells of its job: the flight recorder, statistics, profile and timeline as things happen; dumps, and
// batches that take too long.
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

  /// All that it is given outlives it. `deadlines`: whoever drives runs them.
  JobReports(Parts parts, Deadlines& deadlines, const control::ControlChannel& channel,
             negotiation::Negotiator& negotiator, const OutstandingCalls& calls, lanes::Lanes& lanes);

  /// From any thread: a call with so many tensors has been taken.
  void note_call(std::size_t tensors) { parts_.statistics.tensors_submitted += tensors; }

  // ---- by the lanes, on the thread that runs the batch
  void batch_starts(const lanes::Run& run);
  void batch_ran(const lanes::Run& run, const reports::BatchReport& batch, const Status& status);

  // ---- by the coordinator's driver
  void submitted(const Request& request, TimePoint at);
  /// What failed before it had an order; nothing where `status` is ok.
  void refused(const Request& request, const Status& status);
  /// The operations are told when they were ordered.
  void ordered(const negotiation::ExecuteAction& action, TimePoint now);
  void completed(std::size_t tensors, bool is_well);
  void message_sent() { ++parts_.statistics.messages_sent; }
  void message_received() { ++parts_.statistics.messages_received; }
  void warned(const negotiation::WarnAction& warning);
  /// Logs what ended the job. Of what the launcher tells, where its ranks are, the first line is enough.
  void failed(const Status& cause);
  /// Null: none is written.
  const std::shared_ptr<timeline::Timeline>& timeline() const { return parts_.timeline.current(); }
  void change_timeline(const wire::TimelineChange& change);
  /// Asks that all ranks stop, once this rank's file is nearly full. Before anything more is submitted to the negotiation.
  void stop_timeline_at_limit(TimePoint now);
  void job_is_over(const Status& cause) noexcept { parts_.timeline.job_is_over(cause); }
  /// What the negotiation has seen since: in front of the orders that it led to.
  void take_readiness();
  void take_profile();

  diagnosis::Dump describe(std::string reason, TimePoint now) {
    return describe(std::move(reason), 0, negotiator_.snapshot(), now);
  }
  void dump(const negotiation::DumpAction& action, TimePoint now);
  /// What this rank does, for whoever looks at the job.
  RankFigures figures(TimePoint now) const;
  /// Root only: what all ranks have told of themselves, and what rank 0 knows of them.
  diagnosis::JobFigures job_figures(TimePoint now) const;
  /// Asks where the threads are; `answer` may come on any thread.
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
  std::uint64_t timelines_ = 0;  // until now
  std::uint64_t submitted_ = 0;  // operations
  TimePoint last_submit_{};
  Deadline next_run_check_;  // while there is a batch in a lane
  Deadline next_clock_;      // the parent's, for the timeline, while the parent is on another host
};

}  // namespace dabke::core
