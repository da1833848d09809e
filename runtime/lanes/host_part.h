// The host's part of a run on a device: the work of the host's lane for a device's lane, and how the two wait
// for each other. device_run.h numbers the steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/backend/backend_runner.h"
#include "runtime/lanes/batch_builder.h"
#include "runtime/lanes/device_plan.h"
#include "runtime/lanes/lane_monitor.h"
#include "runtime/lanes/run_ending.h"

namespace dabke::lanes {

class HostPart {
 public:
  /// The points that one lane reaches so that the other can go on, in this order.
  enum class DeviceStep : std::uint8_t { nothing, made_id, built, grown, staged };
  enum class HostStep : std::uint8_t { nothing, compared, exchanged, agreed, over };

  /// The data that the lanes hand to each other. The device's lane writes before it reports a step, and reads
  /// after a step of the host.
  struct Data {
    std::vector<std::byte> id;      // of the set's communicator
    std::uint8_t is_symmetric = 0;  // whether this rank, and later whether each rank, has symmetric memory
    const Batch* batch = nullptr;   // for the host to run; null for none
    std::string_view ran_on;        // the backend that has run it
    Refusals refused;
  };

  /// All arguments outlive it. `plan` comes from DevicePlanner.
  HostPart(LaneMonitor& monitor, const Run& run, const DevicePlan& plan, BatchBuilder& builder)
      : monitor_(monitor),
        run_(run),
        plan_(plan),
        builder_(builder),
        host_step_(is_needed() ? HostStep::nothing : HostStep::over) {}
  HostPart(const HostPart&) = delete;
  HostPart& operator=(const HostPart&) = delete;

  /// True if the run has a host's part.
  bool is_needed() const {
    return plan_.needs_id || plan_.grows_to != 0 || builder_.needs_exchange() || plan_.host_runs();
  }
  /// Runs all of the part, on the host's lane.
  void run(BackendRunner& host);

  // ---- by the device's lane
  Data& data() { return data_; }
  HostStep host_step() const {
    return monitor_.read([this] { return host_step_; });
  }
  /// The error with which the run ends on the host; ok while there is none.
  Status status() const {
    return monitor_.read([this] { return copy_of(status_); });
  }
  void device_has(DeviceStep step) {
    monitor_.change([&] { device_step_ = step; });
  }
  /// Notes that the run has failed on the device: the host does not wait for it any more.
  void fail(const Status& why) {
    monitor_.change([&] {
      if (status_.is_ok()) status_ = copy_of(why);
    });
  }

 private:
  Status take_steps(BackendRunner& host);
  Status share_id(BackendRunner& host);
  Status compare_versions(BackendRunner& host) const;
  Status agree_on_memory(BackendRunner& host);
  Status run_batch(BackendRunner& host);
  Status wait_for(DeviceStep step);
  void host_has(HostStep step) {
    monitor_.change([&] { host_step_ = step; });
  }
  const ProcessSetInfo& ranks_of_device() const { return plan_.ranks_of_device(*run_.process_set); }

  LaneMonitor& monitor_;
  const Run& run_;
  const DevicePlan& plan_;
  BatchBuilder& builder_;
  Data data_;

  // Guarded by the monitor.
  DeviceStep device_step_ = DeviceStep::nothing;
  HostStep host_step_;
  Status status_;
};

}  // namespace dabke::lanes
