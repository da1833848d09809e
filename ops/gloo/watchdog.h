// Ends a run that blocks inside Gloo, at its deadline, by abort() or because it was found hopeless, by
// interrupting its context.
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

namespace dabke {

/// One run at a time. While runs come, the thread looks at them now and then; with none it sleeps without a
/// time limit.
class Watchdog {
 public:
  /// Why the run cannot go on; ok: it can. From the watchdog's thread.
  using Look = std::function<Status(GlooContext&)>;
  /// `look_every` zero: never.
  Watchdog(Duration look_every, Look look) : look_every_(look_every), look_(std::move(look)) {}
  ~Watchdog();

  /// A run begins that `context` runs. An error, the cause, after abort(). `on_deadline` is what end()
  /// says if the deadline passes first.
  Status begin(GlooContext* context, TimePoint deadline, Status on_deadline);
  /// The run has returned, or blocks no more. What ended it, if it was this.
  Status end();

  /// From any thread: the run in flight, and every later one, ends with `cause`. The first cause stays.
  void abort(const Status& cause);
  /// ok, or the cause of abort().
  Status aborted() const;

 private:
  void loop();
  Status reason_to_end(TimePoint now, bool look);

  const Duration look_every_;
  const Look look_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  GlooContext* running_ = nullptr;
  TimePoint deadline_ = kNever;
  Status on_deadline_;
  Status ended_by_;
  Status aborted_;
  std::uint64_t runs_ = 0;  // until now
  bool dozes_ = false;      // until somebody calls, whatever runs
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace dabke
