// The coordinator's thread while nothing is to be done: asleep in ControlChannel::poll, or with a helper that
// holds the baton.
#pragma once

#include <algorithm>
#include <atomic>

#include "runtime/control/control_channel.h"

namespace dabke::core {

class CoordinatorSleep {
 public:
  /// `channel` outlives it.
  explicit CoordinatorSleep(control::ControlChannel& channel) : channel_(channel) {}

  /// Wakes the thread if it sleeps, or is about to. From any thread.
  void wake() {
    if (sleeping_.exchange(false)) channel_.wake();
  }

  // By whoever holds the baton.
  /// The thread is about to sleep: what happens from now on wakes it.
  void begin() { sleeping_ = true; }
  /// Sleeps until something comes, until it is woken, or until `next` at the latest; at once if `is_needed`.
  /// After begin().
  void sleep(bool is_needed, TimePoint next, control::ControlSink& sink, control::Baton& baton) {
    channel_.poll(is_needed ? Clock::now() : until(next), sink, baton);
    sleeping_ = false;
  }
  /// A helper stops to drive: the thread wakes if it is needed, or has to wake earlier than it knows. After
  /// begin().
  void hand_back(bool is_needed, TimePoint next) { channel_.hand_back(is_needed || next < until_); }

 private:
  /// A later time than before is not worth waking up for: the thread finds out when it wakes.
  TimePoint until(TimePoint next) {
    if (next < until_ || until_ <= Clock::now()) until_ = next;
    return until_;
  }

  control::ControlChannel& channel_;
  std::atomic<bool> sleeping_{false};
  TimePoint until_ = kNever;  // the thread's, when nobody else holds the baton
};

}  // namespace dabke::core
