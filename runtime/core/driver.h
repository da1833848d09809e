// The work of whoever holds the baton: commands from the inbox go to the negotiation, its orders to the
// lanes, and what has ended back to the calls.
//
// The lanes report ends and failures on their own threads; all else is done by one thread at a time, which
// holds the baton.
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

/// The parts of which a job's coordinator is made.
struct CoordinatorParts {
  const World& world;
  const Config& config;
  std::unique_ptr<control::ControlChannel> channel;
  const Backends& backends;
  OpenDevice open_device;  // empty where there are no devices
  ProcessSetTable& process_sets;
  std::vector<std::vector<Rank>> static_sets;  // by id, from 1 on; in `process_sets` already
  JobReports::Parts reports;
};

/// The tree of this job's negotiation.
std::shared_ptr<const negotiation::Topology> topology_of(const World& world, const Config& config);

/// The time for what is queued to leave, at the end.
inline constexpr Duration kCloseTime = std::chrono::seconds(2);

/// The coordinator that owns a driver, as the driver sees it. From any thread, but for hand_over().
class DriverOwner {
 public:
  virtual ~DriverOwner() = default;
  /// Puts a command into the inbox, and wakes whoever reads it.
  virtual void post_and_wake(Command command) = 0;
  virtual void wake() = 0;
  /// Takes runs in order, by whoever drives.
  virtual void hand_over(std::unique_ptr<lanes::Run> run) = 0;
};

class Driver final : public control::ControlSink, private lanes::LaneObserver {
 public:
  /// All that it is given outlives it.
  Driver(CoordinatorParts& parts, control::ControlChannel& channel, Inbox& inbox, DriverOwner& owner);

  /// Makes the threads that the job needs beside the coordinator's.
  Status start();

  // ---- from any thread
  lanes::Lanes& lanes() { return lanes_; }
  /// Whether a name may be pending once alone: then take_name() comes before the command, and the name comes
  /// back when the operation ends, or by give_name_back().
  bool names_are_unique() const { return names_ != nullptr; }
  Status take_name(const Request& request);
  void give_name_back(const Request& request) noexcept;
  /// A call with so many tensors has been taken.
  void note_call(std::size_t tensors) { reports_.note_call(tensors); }
  /// Whether orders wait for a tensor that a waiting thread may name (WantedHint).
  bool has_learned_batches() const { return has_learned_batches_; }
  void break_off(Status cause) noexcept;
  bool is_broken() const { return failures_.is_broken(); }

  // ---- by whoever holds the baton
  /// Everything that there is to do.
  void round();
  /// The rank leaves, all has ended, and nothing more can come.
  bool is_finished();
  bool nothing_to_do();
  TimePoint next_deadline() const { return deadlines_.next(); }
  /// After the lanes have stopped: what came after the goodbye is refused.
  void finish();
  /// Ends what has not ended, with the job's first cause if there was one. Needs no memory. `cause`: why it
  /// was broken off.
  void end_broken(Status cause) noexcept;
  Status take_break_cause() { return failures_.take_break_cause(); }
  void stop_reports_and_callbacks();
  /// The end of the job; nothing: it has not ended.
  const std::optional<Status>& over() const { return over_; }

 private:
  // ---- told by the channel and the lanes
  void on_message(Rank peer, std::span<const std::byte> message) override;
  void on_peer_lost(Rank peer, const Status& cause) override;
  void call_finished(std::unique_ptr<NegotiatedCall> call, const Status& status) override;
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

  const World& world_;
  const Config& config_;
  control::ControlChannel& channel_;
  Inbox& inbox_;
  DriverOwner& owner_;
  ProcessSetTable& process_sets_;
  diagnosis::Reporter& reporter_;
  const Log log_;
  Deadlines deadlines_;  // of all that acts by itself: one row each
  OutstandingCalls calls_;
  FailureArbiter failures_;
  negotiation::Negotiator negotiator_;
  GroupCollector groups_;
  const std::unique_ptr<NamesInUse> names_;  // null: a name may be submitted again while it is pending
  CallbackThread callbacks_;
  lanes::Lanes lanes_;
  LostPeers lost_peers_;  // of which the negotiation does not know yet
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
