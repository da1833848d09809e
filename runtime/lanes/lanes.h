// The lanes of a rank: one for the host, and one for each device that the program has brought tensors of.
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
  /// `backends` outlive it. `open_device`: empty where there are no devices. `hosts`: the name of
  /// each rank's.
  Lanes(const Backends& backends, OpenDevice open_device, std::span<const std::string> hosts,
        LaneObserver& observer, Log log);

  /// Called once, before the first run.
  Status start() { return host_.start(); }
  HostLane& host() { return host_; }
  /// Tensors there are about to be submitted in the set. An error says why they cannot be. From any thread.
  Status open(Device device, ProcessSetId set);
  /// Where such a device's tensors live: the host's, or that of one that is open.
  const std::shared_ptr<DeviceMemory>& memory_of(Device device) { return stream_of(device).memory(); }
  /// The stream of the host's lane, or of a device's that is open. From any thread, for what device.h says of any.
  DeviceStream& stream_of(Device device);
  /// Whether some backend runs such a call, whatever its size, by itself or on copies on the host.
  bool can_run(const CallSpec& call) const;
  /// The types of which some device is open.
  DeviceTypes served();

  // By the coordinator's driver alone.
  /// To the lane of its tensors' device; a release enters all.
  void push(std::unique_ptr<Run> run);
  bool is_busy(DeviceType type);

  // From any thread.
  /// Runs of all lanes that have not ended yet.
  std::size_t outstanding();
  /// The batch of any lane that has been running the longest; nothing when none runs.
  std::optional<LaneClock::Running> running();
  /// Throws when there is no memory for a copy of the cause, and may be called again then, with a shorter one.
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
  HostLane host_;  // outlives the devices', which use it
  std::atomic<bool> has_devices_{false};
  std::mutex opening_mutex_;
  std::mutex mutex_;  // all below
  std::map<std::pair<DeviceType, int>, std::unique_ptr<DeviceLane>> devices_;
  std::map<std::pair<ProcessSetId, DeviceType>, int>
      used_;  // the one device of a type that a set's tensors are on
  Status aborted_;
};

}  // namespace dabke::lanes
