// The lane of one device: a thread that prepares, enqueues and polls events; nobody else calls the device,
// but for memory. Several runs may be on their way (device_run.h); they end in the order in which they were
// pushed.
//
// After an abort a run ends when its device has come to its end. A device that finishes none of its runs for
// kAbandonAfter is abandoned: the memory of what it has is kept for as long as the process lives, because the
// device may still write to it.
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

  /// `backends` are those of the device's type, in order of preference; `leaders` as host_layout.h has them. All outlives
  /// the lane; the host's lane is stopped after it.
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
  // Enough that the device never waits for the host.
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
  DevicePlanner planner_;  // by whoever pushes
  HostLane& host_;
  LaneObserver& observer_;
  const Log log_;
  LaneClock running_;
  std::deque<std::shared_ptr<DeviceRun>> runs_;  // the thread's: the oldest first
  TimePoint
      last_failure_ended_{};  // when the device last came to the end of a run that had failed; the thread's
  bool is_idle_ = false;      // the thread's: memory has been given back since the last run
  std::deque<std::shared_ptr<DeviceRun>> pushed_;  // guarded by the monitor, as the next
  bool stopping_ = false;
  std::atomic<std::size_t> outstanding_{0};
  std::jthread thread_;
};

}  // namespace dabke::lanes
