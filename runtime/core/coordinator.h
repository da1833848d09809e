// The coordinator: the thread in each process that negotiates, plans batches and hands them to the lane.
//
// Training threads leave commands in the inbox and wake it when it sleeps; the lane reports ends and
// failures. It sleeps in ControlChannel::poll and does no work without an event.
//
// Whoever waits for a result helps, because to wake a thread and to be woken costs more than all the rest of
// a small collective. While the coordinator's thread sleeps, a thread that waits takes the baton, drives the
// negotiation itself as long as something happens, and runs the batch that it waits for when the lane has
// nothing else to do. With the last look it gives the baton back, and before it runs anything. A blocking
// call of ranks that share memory wakes nobody.
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
  void wake() override { sleep_.wake(); }
  void abort(Status cause) { post(std::move(cause)); }
  /// Every rank writes a dump.
  void ask_for_dumps(std::string reason) { post(AskForDumps{std::move(reason)}); }
  /// What this rank waits for, as a dump without stacks; when the coordinator thread does not answer within
  /// `limit`, the flight recorder alone, and the reason says so.
  diagnosis::Dump describe(std::string reason, Duration limit);
  /// Rank 0 only: all ranks are to send their figures, and what has come until now. Nothing where the
  /// coordinator thread does not answer within `limit`, or the job is over.
  void gather_figures() { post(GatherFigures{}); }
  std::optional<diagnosis::JobFigures> figures(Duration limit);
  /// Every rank is to follow it, unless it has (timeline_requests.h). False: nobody listens any more.
  bool change_timeline(wire::TimelineChange change, std::uint64_t from) {
    return post(ChangeTimeline{std::move(change), from});
  }
  /// The trace of the timeline that stopped on this path is made; see TimelineSwitch::follow().
  void timeline_merged(std::string path) { post(ReleaseTimeline{std::move(path)}); }
  /// Leaves the job, runs what was ordered, closes the links. Returns when the threads have ended. Needs no
  /// memory.
  void shut_down() noexcept;
  /// Whether nothing but a rank's leaving has ended the job. Asked after shut_down().
  bool ended_well() const;
  std::string_view channel_name() const { return channel_->name(); }
  lanes::Lanes& lanes() { return driver_.lanes(); }

 private:
  explicit Coordinator(Parts parts);
  Status start();

  // ---- the thread
  void loop() noexcept;
  void drive();
  void pin_thread() const;
  void break_off(Status cause) noexcept;
  void end_broken() noexcept;

  // ---- whoever waits (coordinator_calls.cc)
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
  control::Baton baton_;  // all below that is not said to be for any thread
  bool ended_ = false;    // nobody drives any more
  bool helped_ = false;   // who holds it waits for a result without limit, and may run its batch
  std::unique_ptr<lanes::Run> own_run_;  // the one that the holder is to run
  shm::WaitingHabit habit_;              // the helpers'
  const std::unique_ptr<control::ControlChannel> channel_;
  const bool can_be_helped_ = channel_->can_be_helped();
  Inbox inbox_;
  LastWords last_words_;
  CoordinatorSleep sleep_;
  Driver driver_;
  std::jthread thread_;
};

}  // namespace dabke::core
