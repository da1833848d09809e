// Ends a run that blocks inside Gloo, at its deadline or by abort(), by interrupting its context.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "ops/gloo/gloo_context.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace dabke {

/// One run at a time. The thread sleeps without a time limit unless a run has one.
class Watchdog {
 public:
  Watchdog() = default;
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

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  GlooContext* running_ = nullptr;
  TimePoint deadline_ = kNever;
  Status on_deadline_;
  Status ended_by_;
  Status aborted_;
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace dabke
