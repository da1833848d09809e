// A run on its way through a device's lane: what the lane's own files know of it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/backend/sliced_batch.h"
#include "runtime/base/threads/exceptions.h"
#include "runtime/lanes/batch_builder.h"
#include "runtime/lanes/device_lane.h"
#include "runtime/lanes/device_recorder.h"

namespace dabke {

struct DeviceLane::Flight {
  enum class Step {
    make_id,
    build,
    grow,
    slice,
    start,
    slicing,
    stage,
    staging,
    launch,
    launching,
    in_flight
  };
  /// What one lane has done for the other to go on.
  enum class Device { nothing, made_id, built, grown, staged };
  enum class Host { nothing, compared, exchanged, agreed, over };
  struct Staged {
    void* device;
    void* host;
    std::size_t bytes;
  };

  Flight(DeviceLane& of, std::unique_ptr<Run> what)
      : lane(of), run(std::move(what)), builder(*run, of.stream()), stream(&of.stream()) {}

  /// Whether a backend has a batch of it, and has not enqueued all of that yet.
  bool is_launching() const { return step == Step::slicing || step == Step::launching; }
  /// Whether something of it is, or may be, on its way there.
  bool is_on_device() const { return event != nullptr || is_launching(); }
  /// Whether the host runs all of it, or its middle.
  bool host_runs() const { return hosted != nullptr || backend == nullptr; }
  /// Those among which the device's backend runs what it runs of it.
  const ProcessSetInfo& ranks_of_device() const {
    return hosted != nullptr ? hosted->inside : *run->process_set;
  }
  static void enqueued(void* context, const Status& status) {
    Flight& flight = *static_cast<Flight*>(context);
    const std::lock_guard lock(flight.lane.mutex_);
    flight.launched = true;
    if (!status.is_ok()) flight.launch_status = copy_of(status);
    flight.lane.has_news_ = true;
    flight.lane.changed_.notify_all();
  }

  DeviceLane& lane;
  std::unique_ptr<Run> run;
  BatchBuilder builder;
  DeviceStream* stream;                     // on which it begins and ends: the lane's, or another
  DeviceBackend* backend = nullptr;         // null: it runs on the host
  std::shared_ptr<const HostedSet> hosted;  // null: the device's backend runs all of it, or nothing
  bool is_direct = false;                   // the host's backend is given memory of the device
  bool needs_id = false;
  std::size_t grows_to = 0;  // what the set's ranks have alike for packing; 0: there is enough

  // The device's.
  Step step = Step::make_id;
  bool has_begun = false;
  TimePoint begun_at{};
  bool has_enqueued = false;           // something that no event has been recorded behind
  std::shared_ptr<DeviceEvent> event;  // what is on its way at the device
  Batch* next = nullptr;               // what the backend is to have of it, and the step that it is in then
  Step next_step = Step::launching;
  const Batch* part = nullptr;  // what the backend has of it, or has had last
  std::vector<Staged> outputs;
  // Where it is in slices: copies that sums may be kept in, if the tensors are none (needs_wide_sums), the slices of what
  // is summed, and those of the tensors; then what the device's backend runs.
  Batch wide;
  std::optional<SlicedBatch> sums;
  std::optional<SlicedBatch> slices;
  Batch before;
  Batch after;
  std::optional<DeviceRecorder> recorder;  // while a timeline is recorded
  Status failed;                           // it waits for the device to come to its end, and ends with this
  TimePoint abandon_at = kNever;
  BatchReport report;

  // The host's until it is over, then the device's.
  Batch on_host;
  std::vector<std::byte> id;
  std::uint8_t is_alike =
      0;  // the device's until `grown`: whether this rank, and then whether each has such memory
  Refusals refused;

  // Guarded by the lane's mutex.
  Device device_has = Device::nothing;
  Host host_has = Host::over;
  Status host_status;
  bool launched = false;
  Status launch_status;
};

}  // namespace dabke
