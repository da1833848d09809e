// The lane of host tensors. Batches run strictly in order, on the lane's thread or, while that has nothing to
// do, on a thread that waits for the result.
//
// The host's parts of a device's batches (row counts, ids of communicators, staging) also take their turn
// here, so that every communicator sees the same order on every rank. A part runs on the lane's own thread,
// and may wait there for its device.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/backend/backend_runner.h"
#include "runtime/lanes/lane.h"
#include "runtime/lanes/run_ending.h"

namespace dabke::lanes {

class HostLane final : public Lane {
 public:
  /// The host's work for another lane. Must not throw.
  using Part = std::function<void(BackendRunner& runner)>;

  /// `backends` are in order of preference, and outlive the lane.
  HostLane(const std::vector<std::unique_ptr<Backend>>& backends, LaneObserver& observer);
  ~HostLane() override;

  /// Called once, before the first run.
  Status start();
  void push(std::unique_ptr<Run> run) override;
  void push_part(Part part);
  /// True if the caller must run the run, by run_here(): its backend allows that, and nothing is before it.
  /// The lane then belongs to the caller until the run has ended.
  bool reserve_for(const Run& run);
  void run_here(Run& run);
  std::size_t outstanding() const override { return outstanding_.load(); }
  bool is_busy() const override { return outstanding() >= kBusyRuns; }
  std::optional<LaneClock::Running> running() const override { return running_.running(); }
  /// Returns the backend that would run such a call, whatever its size; null if there is none.
  const Backend* find(const CallSpec& call, const ProcessSetInfo& set) const {
    return runner_.find(call, {}, set);
  }
  void abort(const Status& cause) override;
  void stop() override;

 private:
  // One batch runs and one waits.
  static constexpr std::size_t kBusyRuns = 2;
  struct Queued {
    std::unique_ptr<Run> run;  // null for a part
    Part part;
  };

  void loop();
  std::optional<Queued> next();
  void report_idle();
  void give_back();
  void perform(Run& run) noexcept;
  std::vector<EndedCall> execute(Run& run);
  Status run_batch(Run& run, reports::BatchReport& report, Refusals& refused);

  BackendRunner runner_;  // used by the thread that has taken the lane
  LaneObserver& observer_;
  DeviceStream& stream_ = host_stream();
  LaneClock running_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  bool taken_ = false;  // a thread runs a run, or uses the backends
  bool stopping_ = false;
  std::atomic<std::size_t> outstanding_{0};
  std::jthread thread_;
};

}  // namespace dabke::lanes
