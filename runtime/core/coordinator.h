// The coordinator: the thread in each process that negotiates, plans batches and hands them to the lane.
//
// Training threads leave commands in the inbox and wake it when it sleeps; the lane tells it of ends and
// failures. It sleeps in ControlChannel::poll and does no work without an event.
//
// Whoever waits for a result helps, because to wake a thread and to be woken costs more than all the rest of
// a small collective. While the coordinator's thread sleeps, a thread that waits takes the baton, drives the
// negotiation itself as long as something happens, and runs the batch that it waits for when the lane has
// nothing else to do. With the last look it gives the baton back, and before it runs anything. A blocking
// call of ranks that share memory wakes nobody.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "runtime/base/settings/config.h"
#include "runtime/control/control_channel.h"
#include "runtime/core/failure_arbiter.h"
#include "runtime/core/group_collector.h"
#include "runtime/core/inbox.h"
#include "runtime/core/job_reports.h"
#include "runtime/lanes/lanes.h"
#include "runtime/links/shm/waiting.h"
#include "runtime/negotiation/machine.h"
#include "runtime/operation/callback_thread.h"
#include "runtime/operation/names_in_use.h"
#include "runtime/operation/process_set_table.h"

namespace dabke {

class Coordinator final : private ControlSink, private LaneObserver {
 public:
  struct Parts {
    const World& world;
    const Config& config;
    std::unique_ptr<ControlChannel> channel;
    const Backends& backends;
    OpenDevice open_device;  // empty where there are no devices
    ProcessSetTable& process_sets;
    std::vector<std::vector<Rank>> static_sets;  // by id, from 1 on; in `process_sets` already
    JobReports::Parts reports;
  };

  /// The tree of this job's negotiation.
  static std::shared_ptr<const Topology> topology_of(const World& world, const Config& config);

  /// Makes every thread that the job will need, the reporter's too. When one cannot be made, all ranks are
  /// told.
  static Result<std::unique_ptr<Coordinator>> open(Parts parts);
  ~Coordinator() override;

  enum class Wake { at_once, left_to_help };
  /// May be called from any thread. The operation completes exactly once, unless it is refused: after
  /// shut_down(). With left_to_help, help() or wake() must follow.
  Status submit(OperationRef operation, Wake wake = Wake::at_once);
  /// A thread is about to wait for it until `deadline`: it is not kept back for others, and the thread
  /// negotiates for as long as there is something to do. Without a deadline it also runs the batch; with one it
  /// leaves that to the lane, since a batch takes as long as its slowest rank. `check`, if not null, is asked
  /// while nobody waits for this thread, and ends the help.
  void help(const Operation& operation, TimePoint deadline, WaitCheck* check,
            Wake submitted = Wake::at_once) noexcept;
  /// What was left to a help() that does not come.
  void wake();
  void abort(Status cause);
  /// Every rank writes a dump.
  void ask_for_dumps(std::string reason);
  /// What this rank waits for, as a dump without stacks; when the coordinator thread does not answer within
  /// `limit`, the flight recorder alone, and the reason says so.
  Dump describe(std::string reason, Duration limit);
  /// Rank 0 only: all ranks are to tell their figures, and what has come until now. Nothing where the coordinator thread
  /// does not answer within `limit`, or the job is over.
  void look() { post(Look{}); }
  std::optional<JobFigures> figures(Duration limit);
  /// Every rank is to follow it, unless it has (timeline_requests.h). False: nobody listens any more.
  bool change_timeline(TimelineChange change, std::uint64_t from);
  /// The trace of the timeline that stopped on this path is made; see TimelineSwitch::follow().
  void timeline_merged(std::string path) { post(ReleaseTimeline{std::move(path)}); }
  /// Leaves the job, runs what was ordered, closes the links. Returns when the threads have ended. Needs no
  /// memory.
  void shut_down() noexcept;
  /// Whether nothing but a rank's leaving has ended the job. Asked after shut_down().
  bool ended_well() const { return !over_ || over_->is_ok() || over_->code() == Code::shut_down; }
  std::string_view channel_name() const { return channel_->name(); }
  Lanes& lanes() { return lanes_; }

 private:
  static constexpr Duration kCloseTime = std::chrono::seconds(2);

  explicit Coordinator(Parts parts);
  Status start();
  Status of_this_rank(const Status& cause) const;
  void tell_all(const Status& cause);
  void send_to_all(std::span<const std::byte> message);

  // ---- told by the channel and the lanes
  void on_message(Rank peer, std::span<const std::byte> message) override;
  void on_peer_lost(Rank peer, const Status& cause) override;
  void call_finished(std::unique_ptr<NegotiatedCall> call, const Status& status) override;
  void batch_starts(const Run& run) override { reports_.batch_starts(run); }
  void batch_ran(const Run& run, const BatchReport& batch, const Status& status) override {
    reports_.batch_ran(run, batch, status);
  }
  void run_ended(bool has_room) override;
  void lane_broke(Status cause) noexcept override { break_off(std::move(cause)); }

  // ---- the thread
  void loop() noexcept;
  void drive();
  void round();
  TimePoint sleep_until();
  bool nothing_to_do();
  bool is_finished();
  bool is_room_awaited();
  TimePoint next_deadline();
  void pin_thread() const;
  void break_off(Status cause) noexcept;
  void end_broken() noexcept;

  // ---- whoever waits (coordinator_help.cc)
  bool take_baton();
  bool drive_for(const Operation& operation, TimePoint deadline, WaitCheck* check) noexcept;
  bool something_comes(int& looks);
  void hand_back();
  void hand_over(std::unique_ptr<Run> run);

  // ---- from the inbox to the negotiation, and from there to the lanes
  bool post(Command command, Wake wake = Wake::at_once);
  void obey_commands(std::vector<Command>& commands, TimePoint now);
  void accept(OperationRef& operation, TimePoint now);
  void perform(std::vector<Action> actions, TimePoint now);
  void execute(const ExecuteAction& action, TimePoint now);
  void change_process_set(const ProcessSetAction& action);
  void over(const Status& cause);
  void note_departure(const Status& status);
  void peer_ended(Rank peer, std::optional<int> status);
  void end_overdue_peers(TimePoint now);
  void judge_failures(TimePoint now);
  void complete(std::unique_ptr<NegotiatedCall> call, const Status& status) noexcept;
  void complete(OperationRef operation, const Status& status) noexcept;

  const World& world_;
  const Config& config_;
  Baton baton_;                      // all below that is not atomic and is not said to be for any thread
  bool ended_ = false;               // nobody drives any more
  bool helped_ = false;              // who holds it waits for a result without limit, and may run its batch
  std::unique_ptr<Run> own_run_;     // the one that the holder is to run
  WaitingHabit habit_;               // the helpers'
  TimePoint sleeps_until_ = kNever;  // the coordinator's thread, when nobody holds it
  std::unique_ptr<ControlChannel> channel_;
  const bool can_be_helped_ = channel_->can_be_helped();
  ProcessSetTable& process_sets_;
  Reporter& reporter_;
  Log log_;
  Inbox inbox_;
  OutstandingCalls calls_;
  FailureArbiter failures_;
  Machine machine_;
  GroupCollector groups_;
  const std::unique_ptr<NamesInUse> names_;  // null: a name may be submitted again while it is pending
  /// A refused call keeps no name from the next.
  bool takes_name(const Operation& operation) const {
    return names_ != nullptr && operation.request->refused.is_ok();
  }
  CallbackThread callbacks_;
  Lanes lanes_;
  JobReports reports_;

  std::atomic<bool> sleeping_{false};
  std::atomic<bool> wants_room_{false};  // the root holds orders back until a lane has less to do
  std::atomic<bool> leaving_{false};
  std::atomic<bool> keeps_back_{false};  // there are learned batches
  std::optional<Status> over_;
  struct LostPeer {
    Rank rank;
    Status cause;
    TimePoint until;  // nobody has said how its process has ended by then
  };
  std::vector<LostPeer> lost_peers_;  // of which the negotiation is not told yet
  bool has_told_departure_ = false;

  // What the end that comes when memory has run out needs.
  std::unique_ptr<std::byte[]> reserve_;  // given back then
  std::vector<std::byte> last_words_;     // "rank 1 on host-b: out of memory", to the others
  std::vector<Rank> neighbours_;

  std::jthread thread_;
};

}  // namespace dabke
