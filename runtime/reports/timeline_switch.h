// Starts and stops this rank's timeline, as the one sequence says (timeline_requests.h).
//
// DABKE_TIMELINE_FORMAT=horovod: rank 0 writes, and its calls alone start and stop; those of others do nothing, and are
// well. DABKE_TIMELINE_FORMAT=records: every rank writes its own file, and any rank's call is for all; as a file is closed
// rank 0 makes the one trace of all, unless dabkerun does as the job ends.
//
// Nobody calls where the configuration says which steps to write, or how large a file may become: then rank 0, or the rank
// whose file it is, asks for the change, and does not wait for it. A file that fills up has room for what its rank has in
// flight. The driver sees it before it announces more, so the stop is ordered before what the rank submits after that; the
// file's writer sees it where nobody drives.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/world.h"
#include "runtime/negotiation/state/actions.h"
#include "runtime/negotiation/timeline_requests.h"
#include "runtime/reports/active_timeline.h"
#include "runtime/reports/recorded_steps.h"

namespace dabke::reports {

class TimelineSwitch {
 public:
  /// Asks the root for a change, from a thread of the application; false where nobody listens any more.
  using Ask = std::function<bool(wire::TimelineChange change, std::uint64_t from)>;
  /// Is called by the thread that has made a trace on this path, or has failed to.
  using OnMerged = std::function<void(std::string path)>;

  /// All that it is given outlives it, but for the log.
  /// `merges`: of which timeline's records somebody else makes the trace.
  TimelineSwitch(const Config& config, const World& world, std::string merges, ActiveTimeline& active,
                 Log log);
  ~TimelineSwitch();
  TimelineSwitch(const TimelineSwitch&) = delete;
  TimelineSwitch& operator=(const TimelineSwitch&) = delete;

  /// What the configuration says, from the first message on. Called once, before all else.
  Status start_with_job();
  /// Who is asked from now on; lives as long as it does.
  void listen(Ask ask, OnMerged on_merged);

  // ---- by threads of the application: they come back when this rank has followed
  ///   errors  of this rank: the path cannot be written, or a timeline is being written; or why the job is over
  Status start(const std::string& path, bool marks_cycles);
  /// Well, where none is being written.
  ///   errors  the first one of writing
  Status stop();
  /// Ends what is being written, when nobody drives any more. What cannot be written is a warning, and fails no job.
  void close();

  // ---- by whoever drives the coordinator
  const std::shared_ptr<timeline::Timeline>& current() const { return current_; }
  /// Whether all ranks are to stop because this rank's file is nearly full: said once, with a warning. Behind which change
  /// this rank is then, for the change that stops.
  std::optional<std::uint64_t> stops_at_limit();
  /// What this rank has marked, whether a timeline is written or not.
  ActiveTimeline::Steps steps() const { return active_.steps(); }
  /// Returns the path of which this rank makes a trace from now on, out of what all ranks have left there. Nobody may start on
  /// it before OnMerged.
  std::optional<std::string> follow(const wire::TimelineChange& change);
  /// No more changes are ordered.
  void job_is_over(const Status& cause) noexcept;

 private:
  /// A change that this rank has followed, and what became of it here.
  struct Followed {
    wire::TimelineChange change;
    Status status;
    std::shared_ptr<timeline::Timeline> stopped;  // until somebody has asked for its end
    std::string stopped_path = {};
  };

  bool writes_here() const { return format_ == TimelineFormat::records || world_.rank == 0; }
  wire::TimelineChange configured() const { return {true, config_.timeline_mark_cycles, config_.timeline}; }
  Status call(const wire::TimelineChange& change);
  /// Asks without waiting for what becomes of it.
  void want(wire::TimelineChange change);
  void step_ended(std::uint64_t step);
  void warn_of_limit() const;
  bool merges_here(const std::string& path) const;
  std::function<void(const Status&)> merge_of(const std::string& path);
  void merge(const std::string& path) const;
  void note_merged(const std::string& path);
  bool still_writes(const std::string& path);
  void warn_of_path() const;
  void warn_of_no_steps() const;
  Status end_of(std::uint64_t index, std::unique_lock<std::mutex>& lock);
  Status open(const wire::TimelineChange& change);
  void set_current(std::shared_ptr<timeline::Timeline> timeline);
  void drop_ended();

  const World& world_;
  ActiveTimeline& active_;
  const Log log_;
  const Config& config_;
  const TimelineFormat format_;
  const std::string merged_elsewhere_;
  // Rank 0's, where it writes some steps alone; under the lock of ActiveTimeline's watcher.
  std::optional<RecordedSteps> steps_;
  std::optional<std::uint64_t> last_step_;
  std::shared_ptr<timeline::Timeline> current_;  // the driver's; null: none is written
  std::string current_path_;                     // the driver's, as it was called for
  // The driver's, where this rank merges: whether note_merged() has come or will at once, as it may before a stop.
  std::shared_ptr<std::atomic<bool>> current_is_merged_;

  std::mutex calls_;  // one call of this rank at a time
  std::mutex mutex_;  // all below
  Ask ask_;
  OnMerged on_merged_;
  std::vector<wire::TimelineChange> unasked_;  // wanted before anybody listened
  std::condition_variable changed_;
  std::shared_ptr<timeline::Timeline> running_;  // what the driver's is
  negotiation::ChangeList<Followed> followed_;
  std::uint64_t position_ = 0;          // behind the change of the last call
  std::vector<std::uint64_t> stopped_;  // the changes that have a timeline yet
  bool is_over_ = false;
  Status over_;
};

}  // namespace dabke::reports
