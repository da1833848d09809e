// The lane of host tensors: batches run strictly in order, apart from the negotiation, on a thread of the
// lane or, while that has nothing to do, on a thread that waits for the result.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/backend/backend_runner.h"
#include "runtime/core/batch_builder.h"
#include "runtime/core/profile.h"

namespace dabke {

/// Told by a lane, on the thread that runs the batch.
class LaneObserver {
 public:
  virtual ~LaneObserver() = default;
  /// Every tensor of the unit has run. The observer owns it from here.
  virtual void unit_finished(std::unique_ptr<Unit> unit, const Status& status) = 0;
  virtual void batch_starts(const Run& run) = 0;
  /// One batch has run; its units are told next.
  virtual void batch_ran(const Run& run, const BatchReport& batch, const Status& status) = 0;
  /// One run less: `left` have not ended yet.
  virtual void runs_left(std::size_t left) = 0;
  /// The lane could not do its part, for want of memory: some units will never be told as finished.
  virtual void lane_broke(Status cause) noexcept = 0;
};

class HostLane {
 public:
  HostLane(const std::vector<std::unique_ptr<Backend>>& backends, LaneObserver& observer);
  ~HostLane();

  /// Called once, before the first run.
  Status start();
  void push(std::unique_ptr<Run> run);
  /// Whether the caller is to run the run, by run_here(): its backend allows it, and nothing is before it.
  /// Until it has run, the lane is the caller's.
  bool reserve_for(const Run& run);
  void run_here(Run& run);
  /// Tasks that have not ended yet.
  std::size_t outstanding() const { return outstanding_.load(); }
  /// May be called from any thread: what runs and what is queued ends with `cause`. Throws when there is no
  /// memory for a copy of the cause, and may be called again then, with a shorter one.
  void abort(const Status& cause);
  /// Runs what is queued, then ends the thread.
  void stop();

 private:
  struct Ended {
    std::unique_ptr<Unit> unit;
    Status status;
  };

  void loop();
  std::unique_ptr<Run> next();
  void perform(Run& run) noexcept;
  void tell(std::vector<Ended>& ended);
  std::vector<Ended> execute(Run& run);
  /// `refused`: of each tensor why no rank has run it; empty when all have been run.
  Status run_batch(Run& run, BatchReport& report, std::vector<Status>& refused);
  static std::vector<Ended> ended_by(const Run& run, const Status& status,
                                     const std::vector<Status>& refused);

  BackendRunner runner_;  // whoever has taken the lane
  LaneObserver& observer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Run>> queue_;
  bool taken_ = false;  // whoever runs a run, or touches the backends, has taken it
  bool stopping_ = false;
  Status aborted_;
  std::atomic<std::size_t> outstanding_{0};
  std::jthread thread_;
};

}  // namespace dabke
