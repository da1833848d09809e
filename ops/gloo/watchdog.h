// Ends a run that blocks inside Gloo, by interrupting its context. There are four reasons: its deadline,
// abort(), a lost peer, and ranks that are out of step.
//
// Gloo cannot send a description of a batch along, and a message that is longer than the receiver expects
// ends the process. So ranks with different batches use different tags (GlooBackend), never meet, and wait. A
// run that takes longer than kLateAfter therefore asks, through the rendezvous store, whether its neighbour
// waits in the same batch.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "ops/gloo/gloo_context.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/abort_latch.h"

namespace dabke::ops {

/// Watches one run at a time. While runs come, the thread checks them periodically. Without runs it sleeps
/// without a time limit.
class Watchdog {
 public:
  /// Returns an error if the run cannot go on. Called on the watchdog's thread.
  using Look = std::function<Status(GlooContext&)>;
  /// The facts about a late run that are compared with the neighbour's.
  struct Note {
    BatchMark mark;
    std::uint64_t run = 0;  // the number of runs that the set has had
    ProcessSetId set = 0;
    std::uint64_t members = 0;  // as in GlooBackend::Set
    std::uint64_t incarnation = 0;
    Rank own = 0;
    Rank neighbour = 0;
  };
  using Ask = std::function<Status(const Note&)>;

  static constexpr auto kLateAfter = std::chrono::seconds(2);

  /// `look_every` is the interval of the checks; zero: no checks. While a run is late, the watchdog's thread
  /// calls `ask` again and again. The run ends with the error of `ask`.
  Watchdog(Duration look_every, Look look, Ask ask)
      : look_every_(look_every), look_(std::move(look)), ask_(std::move(ask)) {}
  ~Watchdog();

  /// Called when a run of `context` begins. Returns the cause if abort() was called before. `on_deadline` is
  /// the Status that end() returns if the deadline passes first.
  Status begin(GlooContext* context, TimePoint deadline, Status on_deadline, const Note& note);
  /// Called when the run has returned or no longer blocks. Returns the error with which the watchdog ended
  /// it, if it did.
  Status end();

  /// May be called from any thread. The current run, and every later one, ends with `cause`. The first cause
  /// stays.
  void abort(const Status& cause);
  /// Returns ok, or the cause of abort().
  const Status& aborted() const { return latch_.aborted(); }
  /// Returns the cause of abort(), or the error that ends the current run.
  Status ended() const;
  /// Called when no run will come for a while: the thread then sleeps without waking.
  void rest();

 private:
  void loop();
  Status reason_to_end(TimePoint now, bool look);
  void ask_about_run(std::unique_lock<std::mutex>& lock);

  const Duration look_every_;
  const Look look_;
  const Ask ask_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  GlooContext* running_ = nullptr;
  TimePoint deadline_ = kNever;
  Status on_deadline_;
  TimePoint late_at_ = kNever;
  Note note_;
  Status ended_by_;
  AbortLatch latch_;
  std::uint64_t runs_ = 0;  // number of runs so far
  bool dozes_ = false;      // until it is notified, whatever runs
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace dabke::ops
