// Ends a run that blocks inside Gloo, at its deadline, by abort(), because it was found hopeless, or because
// the ranks are out of step, by interrupting its context.
//
// Gloo has no place for a word about a batch: a message that is longer than the other side expects ends the
// process. So ranks with different batches use different tags (GlooBackend), never meet, and wait. A run that
// takes longer than kLateAfter therefore asks, in the rendezvous store, whether its neighbour waits in the
// same one.
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

/// One run at a time. While runs come, the thread looks at them now and then; with none it sleeps without a
/// time limit.
class Watchdog {
 public:
  /// Why the run cannot go on; ok: it can. From the watchdog's thread.
  using Look = std::function<Status(GlooContext&)>;
  /// What a late run is asked about.
  struct Note {
    BatchMark mark;
    std::uint64_t run = 0;  // how many the set has had
    ProcessSetId set = 0;
    std::uint64_t members = 0;  // as in GlooBackend::Set
    std::uint64_t incarnation = 0;
    Rank own = 0;
    Rank neighbour = 0;
  };
  using Ask = std::function<Status(const Note&)>;

  static constexpr auto kLateAfter = std::chrono::seconds(2);

  /// `look_every` zero: never. `ask` is called on the watchdog's thread, again and again while a run is late;
  /// the run ends with its error.
  Watchdog(Duration look_every, Look look, Ask ask)
      : look_every_(look_every), look_(std::move(look)), ask_(std::move(ask)) {}
  ~Watchdog();

  /// A run begins that `context` runs. An error, the cause, after abort(). `on_deadline` is what end()
  /// says if the deadline passes first.
  Status begin(GlooContext* context, TimePoint deadline, Status on_deadline, const Note& note);
  /// The run has returned, or blocks no more. What ended it, if it was this.
  Status end();

  /// May be called from any thread: the run in flight, and every later one, ends with `cause`. The first
  /// cause stays.
  void abort(const Status& cause);
  /// ok, or the cause of abort().
  const Status& aborted() const { return latch_.aborted(); }
  /// The same, or what ends the run in flight.
  Status ended() const;
  /// No run will come for a while: sleeps without waking.
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
  std::uint64_t runs_ = 0;  // until now
  bool dozes_ = false;      // until somebody calls, whatever runs
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace dabke::ops
