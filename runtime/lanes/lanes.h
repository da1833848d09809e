// The lanes of a rank: one for the host, and one for each device whose tensors the program has submitted.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/lanes/device_lane.h"

namespace dabke::lanes {

class Lanes {
 public:
  /// `backends` outlive the lanes. `open_device` is empty if there are no devices. `hosts` has the name of
  /// each rank's host.
  Lanes(const Backends& backends, OpenDevice open_device, std::span<const std::string> hosts,
        LaneObserver& observer, Log log);

  /// Called once, before the first run.
  Status start() { return host_.start(); }
  HostLane& host() { return host_; }
  /// Called before tensors on the device are submitted in the set. An error states why they cannot be. From
  /// any thread.
  Status open(Device device, ProcessSetId set);
  /// The memory of such a device's tensors: the host's, or that of an open device.
  const std::shared_ptr<DeviceMemory>& memory_of(Device device) { return stream_of(device).memory(); }
  /// The stream of the host's lane, or of an open device. From any thread, for the functions that device.h
  /// allows to any thread.
  DeviceStream& stream_of(Device device);
  /// True if some backend runs such a call, whatever its size, by itself or on copies on the host.
  bool can_run(const CallSpec& call) const;
  /// The types of the open devices.
  DeviceTypes served();

  // By the coordinator's driver only.
  /// Hands a run to the lane of its tensors' device. A release goes to all lanes.
  void push(std::unique_ptr<Run> run);
  bool is_busy(DeviceType type);

  // From any thread.
  /// Runs of all lanes that have not ended yet.
  std::size_t outstanding();
  /// The batch that a lane has been running the longest; nothing if none runs.
  std::optional<LaneClock::Running> running();
  /// Throws if there is no memory for a copy of the cause, and may then be called again with a shorter one.
  void abort(const Status& cause);
  /// Runs what is queued, then ends the threads.
  void stop();

 private:
  Status open(Device device);
  std::vector<DeviceBackend*> backends_of(DeviceType type) const;
  DeviceLane& lane_of(const Run& run);
  template <class Use>
  void for_each_device(Use use) {
    if (!has_devices_) return;
    const std::lock_guard lock(mutex_);
    for (const auto& [key, lane] : devices_) use(*lane);
  }

  const Backends& backends_;
  const OpenDevice open_device_;
  const std::vector<Rank> leaders_;
  LaneObserver& observer_;
  const Log log_;
  HostLane host_;  // outlives the devices' lanes, which use it
  std::atomic<bool> has_devices_{false};
  std::mutex opening_mutex_;
  std::mutex mutex_;  // guards all below
  std::map<std::pair<DeviceType, int>, std::unique_ptr<DeviceLane>> devices_;
  std::map<std::pair<ProcessSetId, DeviceType>, int>
      used_;  // the one device of a type that has a set's tensors
  Status aborted_;
};

}  // namespace dabke::lanes
