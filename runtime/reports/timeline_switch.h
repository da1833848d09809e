// Starts and stops this rank's timeline at the orders of the job's one sequence (timeline_requests.h).
//
//  - DABKE_TIMELINE_FORMAT=horovod: rank 0 writes, and only its calls start and stop the timeline. Calls on
//    other ranks do nothing and succeed.
//  - DABKE_TIMELINE_FORMAT=records: every rank writes its own file, and the call of any rank is for all. When
//    the files are closed, rank 0 makes the one trace of all ranks, unless dabkerun does at the end of the
//    job.
//
// The configuration may limit the steps or the size of a file. Then the change is requested without a call of
// the application, and without waiting for it. Rank 0 requests it for the steps, the rank of the file for the
// size. A file that is nearly full still has room for the operations that its rank has in flight. The driver
// checks the size before it announces more, so the stop is ordered before what the rank submits later. If no
// thread drives, the file's writer checks it.
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
  /// Requests a change from the root. Called on an application's thread or on a timeline's writer thread.
  /// Returns false if requests are not taken any more.
  using Ask = std::function<bool(wire::TimelineChange change, std::uint64_t from)>;
  /// Called when the trace at `path` was made or could not be made, on the thread that made it.
  using OnMerged = std::function<void(std::string path)>;

  /// Config, world and active timeline must outlive this object. `merges` is the path of the timeline whose
  /// trace another process makes. `roster` is given in an elastic job.
  TimelineSwitch(const Config& config, const World& world, std::string merges, ActiveTimeline& active,
                 Log log, std::optional<timeline::EpochRoster> roster = {});
  ~TimelineSwitch();
  TimelineSwitch(const TimelineSwitch&) = delete;
  TimelineSwitch& operator=(const TimelineSwitch&) = delete;

  /// Starts the timeline that the configuration names, before the first message.
  /// Called once, before all else.
  Status start_with_job();
  /// Sets the functions to call from now on. They must live as long as this object.
  void listen(Ask ask, OnMerged on_merged);

  // ---- called on threads of the application; they return when this rank has followed the change
  ///   errors  of this rank: the path cannot be written, or a timeline is being written; or the cause of the
  ///           job's end
  Status start(const std::string& path, bool marks_cycles);
  /// Does nothing if no timeline is being written.
  ///   errors  the first error of writing
  Status stop();
  /// Closes the timeline when no thread drives any more. A write error is only a warning,
  /// and does not fail the job. If another epoch follows, rank 0 does not merge a timeline that is being
  /// written, because the others would wait for that.
  void close(bool is_last_epoch = true);

  // ---- called by the driver
  const std::shared_ptr<timeline::Timeline>& current() const { return current_; }
  /// Returns a value, once and with a warning, if this rank's file is nearly full and all ranks must
  /// stop. The value is the number of changes that this rank has followed. The request for the stop is
  /// for a change after these.
  std::optional<std::uint64_t> stops_at_limit();
  /// The steps that this rank has marked, even while no timeline was written.
  ActiveTimeline::Steps steps() const { return active_.steps(); }
  /// Follows a change. Returns a path if this rank now makes the trace of all ranks' files there. No timeline
  /// may start at that path before OnMerged.
  std::optional<std::string> follow(const wire::TimelineChange& change);
  /// No more changes will be ordered.
  void job_is_over(const Status& cause) noexcept;

 private:
  /// A change that this rank has followed, and its result here.
  struct Followed {
    wire::TimelineChange change;
    Status status;
    std::shared_ptr<timeline::Timeline> stopped;  // until drop_ended() finds that it has ended
    std::string stopped_path = {};
  };

  bool writes_here() const { return format_ == TimelineFormat::records || world_.rank == 0; }
  /// True in an epoch of an elastic job in which the program goes on with steps of earlier epochs.
  bool is_later_epoch() const { return origin_.roster && origin_.epoch > 1; }
  wire::TimelineChange configured() const { return {true, config_.timeline_mark_cycles, config_.timeline}; }
  Status call(const wire::TimelineChange& change);
  /// Requests a change without waiting for its result.
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
  /// `is_late`: the epoch has begun before this recording.
  Status open(const wire::TimelineChange& change, bool is_late = true);
  void set_current(std::shared_ptr<timeline::Timeline> timeline);
  void drop_ended();

  const World& world_;
  ActiveTimeline& active_;
  const Log log_;
  const Config& config_;
  const TimelineFormat format_;
  const std::string merged_elsewhere_;
  const timeline::TimelineOrigin origin_;
  // For rank 0 if it writes only some steps. Protected by the lock of ActiveTimeline's watcher.
  std::optional<RecordedSteps> steps_;
  std::optional<std::uint64_t> last_step_;
  std::shared_ptr<timeline::Timeline> current_;  // used by the driver; null if no timeline is written
  std::string current_path_;                     // used by the driver; the path as it was given
  // Used by the driver if this rank merges: true if note_merged() was called or will be at
  // once, perhaps before a stop.
  std::shared_ptr<std::atomic<bool>> current_is_merged_;
  std::atomic<bool> goes_on_{false};  // see close()

  std::mutex calls_;  // held during a call, so that there is one at a time
  std::mutex mutex_;  // protects all members below
  Ask ask_;
  OnMerged on_merged_;
  std::vector<wire::TimelineChange> unasked_;  // requested before listen()
  std::condition_variable changed_;
  std::shared_ptr<timeline::Timeline> running_;  // a copy of current_ for other threads
  negotiation::ChangeList<Followed> followed_;
  std::uint64_t position_ = 0;          // number of the change after that of the last call
  std::vector<std::uint64_t> stopped_;  // numbers of changes that still have a timeline
  bool is_over_ = false;
  Status over_;
};

}  // namespace dabke::reports
