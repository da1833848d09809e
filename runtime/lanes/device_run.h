// One run of a device's lane, from the hand-over to its end: a state machine that the lane's thread drives.
//
// A run takes these steps, which the two lanes do in turn. Most runs have only the steps of the device.
//   1. host    if the backend needs an id for a new set, the ranks compare the versions of its library
//   2. device  the set's first rank makes the id
//   3. host    all ranks receive the id, and exchange their row counts (allgather, alltoall)
//   4. device  waits for the inputs' events, and makes the outputs. If the set needs more symmetric memory,
//              waits until all earlier work has ended, and takes that memory (SymmetricMemory).
//   5. host    the ranks agree which outputs have memory everywhere (output_verdict.h), or whether all ranks
//              have symmetric memory
//   6. device  if the host runs the batch, copies the inputs to the host. If the host runs only the middle of
//              the batch (sliced_run.h), enqueues what comes before, and copies this rank's slice.
//   7. host    runs its batch
//   8. device  enqueues the batch; or copies the outputs back, and enqueues what comes after
//   9. device  polls the event behind all of that until it is reached: the run has ended
// The host's steps of a run are one part in the host's lane (host_part.h). The part enters that lane when the
// run is handed over, before the next run, and waits there for the device. So every communicator of the host
// sees the same order on every rank.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/lanes/batch_builder.h"
#include "runtime/lanes/device_plan.h"
#include "runtime/lanes/device_recorder.h"
#include "runtime/lanes/host_part.h"
#include "runtime/lanes/lane_monitor.h"
#include "runtime/lanes/sliced_run.h"
#include "runtime/lanes/staged_batch.h"
#include "runtime/reports/profile.h"

namespace dabke::lanes {

/// The objects that the runs of one lane share. For the lane's thread only, except the monitor.
struct DeviceLaneParts {
  DeviceLaneParts(std::shared_ptr<DeviceStream> of, const std::vector<DeviceBackend*>& backends)
      : stream(std::move(of)),
        runner(std::vector<Backend*>(backends.begin(), backends.end())),
        wide(*stream),
        direct(std::make_unique<FusionBuffer>(*stream)) {}

  const std::shared_ptr<DeviceStream> stream;
  BackendRunner runner;
  FusionBuffer wide;                     // copies whose sums no rank may round
  std::unique_ptr<FusionBuffer> direct;  // copies for a backend of the host
  LaneMonitor monitor;
};

class DeviceRun {
 public:
  DeviceRun(DeviceLaneParts& lane, std::unique_ptr<Run> run, DevicePlan plan);
  DeviceRun(const DeviceRun&) = delete;
  DeviceRun& operator=(const DeviceRun&) = delete;

  HostPart& host_part() { return host_; }
  const Run& run() const { return *run_; }
  /// True for the release of a set, which runs nothing.
  bool is_release() const { return run_->is_release(); }

  // ---- by the lane's thread
  /// Takes the next step, if what it needs is there. `is_oldest` is true if all earlier work has ended on the
  /// device.
  Status advance(bool is_oldest);
  /// The current step, which shows whether advance() has come further.
  int step() const { return static_cast<int>(step_); }
  /// True if all of the run is enqueued, so that the next run may follow.
  bool is_enqueued() const { return step_ == Step::in_flight; }
  bool has_ended() const { return is_enqueued() && event_ == nullptr; }
  /// True if some of the run is, or may be, in flight on the device.
  bool is_on_device() const { return event_ != nullptr || is_launching(); }

  /// The run ends with `why` once neither the host nor the device works on it. `abandon_at` is when to stop
  /// waiting for that.
  void fail(Status why, TimePoint abandon_at);
  const Status& failed() const { return failed_; }
  bool is_host_over() const { return host_.host_step() == HostPart::HostStep::over; }
  TimePoint abandon_at() const { return abandon_at_; }
  /// True if a failed run may end now.
  bool may_end();
  /// Gives the timeline the records that the device has reached.
  void report_times() {
    if (recorder_) recorder_->record_last();
  }
  /// Called once, when the run has ended. Returns its batch as the lane reports it; refused() has the refused
  /// tensors.
  reports::BatchReport finish();
  const Refusals& refused() { return host_.data().refused; }

  /// When the run began; nothing if it has not.
  std::optional<TimePoint> begun_at() const { return begun_at_; }
  void begin(TimePoint now);

 private:
  enum class Step : std::uint8_t {
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
  /// A part of the run that its backend has not enqueued yet. Guarded by the monitor.
  struct Launch {
    LaneMonitor& monitor;
    bool is_over = false;
    Status status;
    static void over(void* context, const Status& status);
  };

  /// True if a backend has a batch of the run, and has not enqueued all of it yet.
  bool is_launching() const { return step_ == Step::slicing || step_ == Step::launching; }
  Status make_id();
  Status build();
  Status wait_for_inputs();
  void take_id();
  Status grow();
  Status slice();
  Status stage();
  Status launch();
  Status launch_after_host();
  Status poll_launch();
  Status start(Batch& part, Step then);
  Status start();
  Status record_behind();
  Status record_end();
  Status poll_event();

  DeviceLaneParts& lane_;
  std::unique_ptr<Run> run_;
  const DevicePlan plan_;
  BatchBuilder builder_;
  HostPart host_;

  Step step_ = Step::make_id;
  bool is_oldest_ = false;
  bool needs_id_;  // still to be given to the backend
  std::optional<TimePoint> begun_at_;
  DeviceBackend* backend_;  // the backend that runs the part
  Batch* next_ = nullptr;   // the part that the backend gets next; next_step_ is the step then
  Step next_step_ = Step::launching;
  const Batch* part_ = nullptr;  // the part that the backend has, or has had last
  Launch launch_;
  std::optional<SlicedRun> sliced_;
  StagedBatch staged_;
  bool is_direct_;                          // staged_ is on the device
  bool has_enqueued_ = false;               // there is work without an event behind it
  std::shared_ptr<DeviceEvent> event_;      // the end of the work in flight on the device
  std::optional<DeviceRecorder> recorder_;  // while a timeline is recorded
  reports::BatchReport report_;
  Status failed_;
  TimePoint abandon_at_ = kNever;
};

}  // namespace dabke::lanes
