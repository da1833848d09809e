// The work of the baton's holder. Commands from the inbox go to the negotiation, its orders go to the lanes,
// and the ends of batches go back to the calls.
//
// The lanes report ends and failures on their own threads. All other work is done by one thread at a time,
// which holds the baton.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/deadlines.h"
#include "runtime/base/settings/config.h"
#include "runtime/control/control_channel.h"
#include "runtime/core/failure_arbiter.h"
#include "runtime/core/group_collector.h"
#include "runtime/core/inbox.h"
#include "runtime/core/job_reports.h"
#include "runtime/core/lost_peers.h"
#include "runtime/lanes/lanes.h"
#include "runtime/negotiation/negotiator.h"
#include "runtime/operation/callback_thread.h"
#include "runtime/operation/names_in_use.h"
#include "runtime/operation/process_set_table.h"

namespace dabke::core {

/// The parts from which a job's coordinator is made.
struct CoordinatorParts {
  const World& world;
  const Config& config;
  std::unique_ptr<control::ControlChannel> channel;
  const Backends& backends;
  OpenDevice open_device;  // empty if there are no devices
  ProcessSetTable& process_sets;
  FirstSets first_sets;  // in `process_sets` already
  JobReports::Parts reports;
};

/// The tree of this job's negotiation.
std::shared_ptr<const negotiation::Topology> topology_of(const World& world, const Config& config);

/// The time limit for sending what is still queued at the end.
inline constexpr Duration kCloseTime = std::chrono::seconds(2);

/// The coordinator that owns a driver, as the driver sees it. From any thread, except hand_over().
class DriverOwner {
 public:
  virtual ~DriverOwner() = default;
  /// Puts a command into the inbox, and wakes its reader.
  virtual void post_and_wake(Command command) = 0;
  virtual void wake() = 0;
  /// Takes runs in order. Called by the thread that drives.
  virtual void hand_over(std::unique_ptr<lanes::Run> run) = 0;
};

class Driver final : public control::ControlSink, private lanes::LaneObserver {
 public:
  /// All objects that the driver is given outlive it.
  Driver(CoordinatorParts& parts, control::ControlChannel& channel, Inbox& inbox, DriverOwner& owner);

  /// Makes the threads that the job needs besides the coordinator's.
  Status start();

  // ---- from any thread
  lanes::Lanes& lanes() { return lanes_; }
  /// True if a name may be pending only once. Then take_name() comes before the command. The name is given
  /// back when the operation ends, or by give_name_back().
  bool names_are_unique() const { return names_ != nullptr; }
  Status take_name(const Request& request);
  void give_name_back(const Request& request) noexcept;
  /// Counts an accepted call with `tensors` tensors.
  void note_call(std::size_t tensors) { reports_.note_call(tensors); }
  /// True if orders wait for a tensor that a waiting thread may name (WantedHint).
  bool has_learned_batches() const { return has_learned_batches_; }
  void break_off(Status cause) noexcept;
  bool is_broken() const { return failures_.is_broken(); }

  // ---- by the holder of the baton
  /// Does everything that there is to do.
  void round();
  /// True if the rank leaves, all work has ended, and nothing more can come.
  bool is_finished();
  bool nothing_to_do();
  TimePoint next_deadline() const { return deadlines_.next(); }
  /// Stops the lanes, closes the channel, and refuses commands that came after the goodbye.
  void finish();
  /// Ends everything that has not ended, with the job's first cause or, if there is none, with `cause`, the
  /// error of the break. Needs no memory.
  void end_broken(Status cause) noexcept;
  Status take_break_cause() { return failures_.take_break_cause(); }
  void stop_reports_and_callbacks();
  /// The end of the job; nothing while the job has not ended.
  const std::optional<Status>& over() const { return over_; }

 private:
  // ---- called by the channel and the lanes
  void on_message(Rank peer, std::span<const std::byte> message) override;
  void on_peer_lost(Rank peer, const Status& cause) override;
  void call_finished(std::unique_ptr<NegotiatedCall> call, const Status& status) override;
  void calls_finished() noexcept override { callbacks_.wake(); }
  void batch_starts(const lanes::Run& run) override { reports_.batch_starts(run); }
  void batch_ran(const lanes::Run& run, const reports::BatchReport& batch, const Status& status) override {
    reports_.batch_ran(run, batch, status);
  }
  void run_ended(bool has_room) override;
  void lane_broke(Status cause) noexcept override { break_off(std::move(cause)); }

  bool is_room_awaited();
  void obey_commands(std::vector<Command>& commands, TimePoint now);
  void accept(OperationRef& operation, TimePoint now);
  void perform(std::vector<negotiation::Action> actions, TimePoint now);
  void execute(const negotiation::ExecuteAction& action, TimePoint now);
  void change_process_set(const negotiation::ProcessSetAction& action);
  void job_is_over(const Status& cause);
  void note_departure(const Status& status);
  void peer_ended(Rank peer, std::optional<int> status);
  void give_up_lost_peers(TimePoint now);
  void judge_failures(TimePoint now);
  void complete(std::unique_ptr<NegotiatedCall> call, const Status& status) noexcept;
  void complete(OperationRef operation, const Status& status) noexcept;
  void end(OperationRef operation, const Status& status) noexcept;  // the caller wakes the callback thread

  const World& world_;
  const Config& config_;
  control::ControlChannel& channel_;
  Inbox& inbox_;
  DriverOwner& owner_;
  ProcessSetTable& process_sets_;
  diagnosis::Reporter& reporter_;
  const Log log_;
  Deadlines deadlines_;  // one row for each part that acts by itself
  OutstandingCalls calls_;
  FailureArbiter failures_;
  negotiation::Negotiator negotiator_;
  GroupCollector groups_;
  const std::unique_ptr<NamesInUse> names_;  // null if a pending name may be submitted again
  CallbackThread callbacks_;
  lanes::Lanes lanes_;
  LostPeers lost_peers_;  // not reported to the negotiation yet
  Deadline lost_peers_due_;
  JobReports reports_;
  Deadline negotiation_due_;
  Deadline failures_due_;

  std::atomic<bool> wants_room_{false};  // the root defers orders until a lane has less to do
  std::atomic<bool> leaving_{false};
  std::atomic<bool> has_learned_batches_{false};
  std::optional<Status> over_;
  bool has_logged_departure_ = false;
};

}  // namespace dabke::core
