// The lane of one device: a thread that prepares, enqueues and polls events. No other thread calls the
// device, except for memory. Several runs may be in flight (device_run.h); they end in the order in which
// they were pushed.
//
// After an abort, a run ends when its device has finished. A device that finishes none of its runs for
// kAbandonAfter is abandoned. The memory of its runs is then kept for as long as the process lives, because
// the device may still write to it.
#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/lanes/device_run.h"
#include "runtime/lanes/host_lane.h"

namespace dabke::lanes {

class DeviceLane final : public Lane {
 public:
  static constexpr Duration kAbandonAfter = std::chrono::seconds(5);

  /// `backends` are those of the device's type, in order of preference, and `leaders` are as in
  /// host_layout.h. All arguments outlive the lane. The host's lane is stopped after this lane.
  DeviceLane(std::shared_ptr<DeviceStream> stream, const std::vector<DeviceBackend*>& backends,
             const std::vector<Rank>& leaders, HostLane& host, LaneObserver& observer, Log log);
  ~DeviceLane() override;

  /// Called once, before the first run.
  Status start();
  DeviceStream& stream() { return *parts_.stream; }
  void push(std::unique_ptr<Run> run) override;
  std::size_t outstanding() const override { return outstanding_.load(); }
  bool is_busy() const override { return outstanding() >= kBusyRuns; }
  std::optional<LaneClock::Running> running() const override { return running_.running(); }
  void abort(const Status& cause) override;
  void stop() override;

 private:
  // Enough runs that the device never waits for the host.
  static constexpr std::size_t kBusyRuns = 4;

  // By the lane's thread.
  void loop();
  void work();
  bool advance(DeviceRun& run);
  void begin(DeviceRun& run);
  void end_front();
  bool may_end(const std::shared_ptr<DeviceRun>& run);
  void abandon(const std::shared_ptr<DeviceRun>& run);
  void end(DeviceRun& run);
  bool wait_a_little(int& polls);
  void give_back_memory();

  DeviceLaneParts parts_;
  DevicePlanner planner_;  // used by the thread that pushes
  HostLane& host_;
  LaneObserver& observer_;
  const Log log_;
  LaneClock running_;
  std::deque<std::shared_ptr<DeviceRun>> runs_;  // used by the lane's thread; the oldest first
  TimePoint last_failure_ended_{};  // when the device last finished a failed run; for the lane's thread
  bool is_idle_ = false;            // memory was given back since the last run; for the lane's thread
  std::deque<std::shared_ptr<DeviceRun>> pushed_;  // guarded by the monitor, as is stopping_
  bool stopping_ = false;
  std::atomic<std::size_t> outstanding_{0};
  std::jthread thread_;
};

}  // namespace dabke::lanes
