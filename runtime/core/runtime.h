// One rank of a job, from init to shutdown, with everything that the rank owns. A process may have several,
// as tests do.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/bootstrap/bootstrap.h"
#include "runtime/core/change_watch.h"
#include "runtime/core/coordinator.h"
#include "runtime/diagnosis/dump_signal.h"
#include "runtime/diagnosis/live/live_statistics_server.h"

namespace dabke::core {

/// Objects that belong to the process, and outlive its jobs.
struct ProcessParts {
  std::shared_ptr<diagnosis::StackSource> stacks = std::make_shared<diagnosis::StackSource>();
  std::shared_ptr<shm::SharedHeap> heap = std::make_shared<shm::SharedHeap>();  // for dabke_alloc
  // The descriptors of this job alone. This guard exists before init opens the first descriptor, because
  // another thread may fork while init waits.
  std::shared_ptr<ForkGuard> fork_guard = std::make_shared<ForkGuard>();
  std::shared_ptr<reports::ActiveTimeline> timeline = std::make_shared<reports::ActiveTimeline>();
  /// Shared by the epochs of an elastic job, so that a dump shows what led to a change.
  std::shared_ptr<diagnosis::FlightRecorder> recorder = std::make_shared<diagnosis::FlightRecorder>();
  std::weak_ptr<WaitCheck> init_check;  // of the opening thread, as long as it waits for other ranks
};

/// The reason why a runtime ends.
enum class JobEnd : std::uint8_t { shutdown, next_epoch };

class Runtime {
 public:
  /// Functions that make the backends and the channel. The runtime itself names no backend, and a test may
  /// need another channel.
  struct Factories {
    std::function<Result<Backends>(const BackendContext&)> backends;
    std::function<Result<std::unique_ptr<control::ControlChannel>>(const BackendContext&)> channel =
        make_channel;
    OpenDevice open_device = {};  // empty if there are no devices
    /// The route of tensors on devices. Empty means by the device's backend.
    std::function<DeviceRoute(const BackendContext&)> device_route = {};
  };
  /// Makes the channel that the configuration asks for.
  static Result<std::unique_ptr<control::ControlChannel>> make_channel(const BackendContext& context);

  /// Joins the job that the environment describes, or the communicator at `mpi_comm`. Collective.
  static Result<std::unique_ptr<Runtime>> open(const Config& config, const Environment& environment,
                                               const Factories& factories, const void* mpi_comm = nullptr,
                                               ProcessParts process = {});
  static Result<std::unique_ptr<Runtime>> open(const Config& config, bootstrap::Bootstrapped bootstrapped,
                                               const Factories& factories, ProcessParts process = {});
  ~Runtime();

  const World& world() const { return bootstrapped_.world; }
  const Config& config() const { return config_; }
  const ProcessSetTable& process_sets() const { return process_sets_; }
  const reports::Statistics& statistics() const { return statistics_; }
  const reports::Profile& profile() const { return profile_; }
  /// The plan of this epoch; nothing unless the job is elastic.
  const std::optional<bootstrap::EpochPlan>& plan() const { return bootstrapped_.plan; }
  std::vector<std::string_view> backend_names() const;
  /// Null unless MPI has started the job.
  const modules::MpiSession* mpi() const { return bootstrapped_.mpi; }
  std::string_view channel_name() const { return coordinator_->channel_name(); }

  /// Returns at once the errors that this rank can find alone; the operation then never completes. Otherwise
  /// it completes exactly once.
  Status submit(OperationRef operation) { return submit(std::move(operation), Coordinator::Wake::at_once); }
  /// Like submit(), for a thread that calls help() next, or else stop_waiting_for().
  Status submit_and_leave_to_waiter(OperationRef operation) {
    operation->leave_to_waiter();
    return submit(std::move(operation), Coordinator::Wake::left_to_help);
  }
  /// Sends the refusal of a call to the other ranks of the process set, which may have accepted the call. It
  /// fails on all of them with `why`, instead of waiting for this rank. Returns `why`.
  Status refuse(const Operation& operation, Status why);
  /// Calls submit(), and waits until the operation is complete.
  Status run(const OperationRef& operation);
  /// Called before a wait for an operation (coordinator.h).
  void help(const Operation& operation, TimePoint deadline, WaitCheck* check = nullptr) {
    const bool is_left = operation.take_from_waiter();
    coordinator_->help(operation, deadline, check,
                       is_left ? Coordinator::Wake::left_to_help : Coordinator::Wake::at_once);
  }
  /// Called if no thread will wait for an operation that was left to its waiter.
  void stop_waiting_for(const Operation& operation) {
    if (operation.take_from_waiter()) coordinator_->wake();
  }
  /// Called when the program receives the end of an operation: it may see the changes that the operation
  /// carries. Not earlier, because ranks must see them at the same place of the program.
  void received(const Operation& operation) {
    if (operation.changes != 0) see_changes(operation.changes);
  }
  /// The changes of the job's hosts that the program may see, without those before this epoch.
  std::uint64_t announced_changes() const;
  /// Ends every pending and later operation of every rank with this reason.
  void abort(std::string reason);
  /// Documented in timeline_switch.h.
  Status start_timeline(const std::string& path, bool mark_cycles);
  Status stop_timeline();
  reports::ActiveTimeline& timeline() { return *active_timeline_; }
  /// Writes to `path` what this rank has done and what it waits for, with stacks.
  Status dump(const std::string& path);
  /// Makes every rank write a dump to its usual place.
  void ask_for_dumps(std::string reason) { coordinator_->ask_for_dumps(std::move(reason)); }
  /// Leaves the job, or this epoch of it. Returns when all threads have ended and the timeline is written.
  Status shut_down(JobEnd end = JobEnd::shutdown) noexcept;

 private:
  Runtime(const Config& config, bootstrap::Bootstrapped bootstrapped, ProcessParts process);
  Status start(const Factories& factories);
  Status submit(OperationRef operation, Coordinator::Wake wake);
  void hold_memory(Operation& operation);
  void see_changes(std::uint64_t changes);
  void fail_init(const Status& why);
  void end_with_mpi(std::string_view setting);
  void print_profile() const;

  Config config_;
  DeviceRoute device_route_ = DeviceRoute::device;  // this rank's choice
  bootstrap::Bootstrapped bootstrapped_;
  const std::shared_ptr<shm::SharedHeap> heap_;
  Log log_;
  std::shared_ptr<ForkGuard> fork_guard_;
  reports::Statistics statistics_;
  reports::Profile profile_;
  const std::shared_ptr<diagnosis::FlightRecorder> recorder_;
  diagnosis::Reporter reporter_;
  TimePoint opened_at_ = Clock::now();
  ProcessSetTable process_sets_;
  Backends backends_;
  const std::shared_ptr<reports::ActiveTimeline> active_timeline_;
  reports::TimelineSwitch timeline_;
  std::unique_ptr<Coordinator> coordinator_;
  std::atomic<std::uint64_t> changes_{0};      // that the program may see
  std::unique_ptr<ChangeWatch> change_watch_;  // on rank 0 of an elastic job
  std::unique_ptr<diagnosis::DumpSignal> dump_signal_;
  std::unique_ptr<diagnosis::LiveStatisticsServer>
      live_statistics_server_;  // on rank 0, if live statistics may be read
  bool left_ = false;
};

}  // namespace dabke::core
