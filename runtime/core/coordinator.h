// The coordinator: the thread in each process that negotiates, plans batches and hands them to the lanes.
//
// Training threads put commands into the inbox, and wake the coordinator if it sleeps. Lanes report ends and
// failures. The coordinator sleeps in ControlChannel::poll, and does no work without an event.
//
// A thread that waits for a result helps, because waking a thread and being woken cost more than all the rest
// of a small collective. While the coordinator's thread sleeps, the waiting thread takes the baton and drives
// the negotiation as long as something happens. It runs the batch that it waits for if the lane has nothing
// else to do. It gives the baton back when nothing happens any more, and before it runs a batch. So a
// blocking call among ranks that share memory wakes no thread.
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "runtime/core/coordinator_sleep.h"
#include "runtime/core/driver.h"
#include "runtime/core/last_words.h"
#include "runtime/links/shm/waiting.h"

namespace dabke::core {

class Coordinator final : private DriverOwner {
 public:
  using Parts = CoordinatorParts;

  /// Makes every thread that the job will need, including the reporter's. If one cannot be made, all ranks
  /// are notified.
  static Result<std::unique_ptr<Coordinator>> open(Parts parts);
  ~Coordinator() override;

  enum class Wake { at_once, left_to_help };
  /// May be called from any thread. The operation completes exactly once, unless submit() refuses it, for
  /// example after shut_down(). With left_to_help, help() or wake() must follow.
  Status submit(OperationRef operation, Wake wake = Wake::at_once);
  /// Called by a thread that is about to wait for `operation` until `deadline`. The operation is then not
  /// held back for other tensors, and the thread negotiates as long as there is something to do. Without a
  /// deadline the thread also runs the batch. With a deadline it leaves the batch to the lane, since a batch
  /// takes as long as its slowest rank. `check`, if not null, is called while no other thread waits for this
  /// one, and may end the help.
  void help(const Operation& operation, TimePoint deadline, WaitCheck* check,
            Wake submitted = Wake::at_once) noexcept;
  /// Wakes the coordinator for commands that were left to a help() that does not come.
  void wake() override { sleep_.wake(); }
  void abort(Status cause) { post(std::move(cause)); }
  /// Makes every rank write a dump.
  void ask_for_dumps(std::string reason) { post(AskForDumps{std::move(reason)}); }
  /// Returns what this rank waits for, as a dump without stacks. If the coordinator thread does not answer
  /// within `limit`, the dump has the flight recorder alone, and its reason mentions this.
  diagnosis::Dump describe(std::string reason, Duration limit);
  /// Rank 0 only. gather_figures() asks all ranks to send their figures, and figures() returns what has come
  /// so far. It returns nothing if the coordinator thread does not answer within `limit`, or if the job is
  /// over.
  void gather_figures() { post(GatherFigures{}); }
  std::optional<diagnosis::JobFigures> figures(Duration limit);
  /// Makes every rank follow the change, unless that is done already (timeline_requests.h). False if the
  /// coordinator has ended.
  bool change_timeline(wire::TimelineChange change, std::uint64_t from) {
    return post(ChangeTimeline{std::move(change), from});
  }
  /// Rank 0 only: so many changes of the job's hosts have been announced. All ranks get the number with the
  /// next operation of the world.
  void announce_changes(std::uint64_t changes) { post(ChangesAnnounced{changes}); }
  /// Notes that the trace of the timeline that stopped on this path is made; see TimelineSwitch::follow().
  void timeline_merged(std::string path) { post(ReleaseTimeline{std::move(path)}); }
  /// Leaves the job, runs what was ordered, and closes the links. Returns when the threads have ended. Needs
  /// no memory.
  void shut_down() noexcept;
  /// True if nothing but the departure of a rank has ended the job. Called after shut_down().
  bool ended_well() const;
  std::string_view channel_name() const { return channel_->name(); }
  lanes::Lanes& lanes() { return driver_.lanes(); }

 private:
  explicit Coordinator(Parts parts);
  Status start();

  // ---- by the coordinator's thread
  void loop() noexcept;
  void drive();
  void pin_thread() const;
  void break_off(Status cause) noexcept;
  void end_broken() noexcept;

  // ---- by a thread that waits (coordinator_calls.cc)
  bool take_baton();
  bool drive_for(const Operation& operation, TimePoint deadline, WaitCheck* check) noexcept;
  bool something_comes(int& looks);
  void hand_over(std::unique_ptr<lanes::Run> run) override;

  bool post(Command command, Wake wake = Wake::at_once);
  void post_and_wake(Command command) override { post(std::move(command)); }

  const World& world_;
  const Config& config_;
  diagnosis::Reporter& reporter_;
  const Log log_;
  control::Baton baton_;  // guards all members below, except those that any thread may use
  bool ended_ = false;    // no thread drives any more
  bool helped_ = false;   // the holder waits for a result without a deadline, and may run its batch
  std::unique_ptr<lanes::Run> own_run_;  // the run that the holder is to run itself
  shm::WaitingHabit habit_;              // of the helpers
  const std::unique_ptr<control::ControlChannel> channel_;
  const bool can_be_helped_ = channel_->can_be_helped();
  Inbox inbox_;
  LastWords last_words_;
  CoordinatorSleep sleep_;
  Driver driver_;
  std::jthread thread_;
};

}  // namespace dabke::core
