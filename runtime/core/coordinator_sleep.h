// The sleep of the coordinator's thread while there is nothing to do. The thread sleeps in
// ControlChannel::poll, or a helper drives and holds the baton.
#pragma once

#include <algorithm>
#include <atomic>

#include "runtime/control/control_channel.h"

namespace dabke::core {

class CoordinatorSleep {
 public:
  /// `channel` outlives this object.
  explicit CoordinatorSleep(control::ControlChannel& channel) : channel_(channel) {}

  /// Wakes the thread if it sleeps, or is about to. From any thread.
  void wake() {
    if (sleeping_.exchange(false)) channel_.wake();
  }

  // Called by the holder of the baton.
  /// Announces that the thread is about to sleep: events from now on wake it.
  void begin() { sleeping_ = true; }
  /// Sleeps until something comes, until wake() is called, or until `next` at the latest. Returns at once if
  /// `is_needed`. Called after begin().
  void sleep(bool is_needed, TimePoint next, control::ControlSink& sink, control::Baton& baton) {
    channel_.poll(is_needed ? Clock::now() : until(next), sink, baton);
    sleeping_ = false;
  }
  /// Called when a helper stops driving, after begin(). The thread wakes if it is needed, or if it must wake
  /// earlier than it plans.
  void hand_back(bool is_needed, TimePoint next) { channel_.hand_back(is_needed || next < until_); }

 private:
  /// A later time than the planned one does not change the plan: the thread finds it when it wakes.
  TimePoint until(TimePoint next) {
    if (next < until_ || until_ <= Clock::now()) until_ = next;
    return until_;
  }

  control::ControlChannel& channel_;
  std::atomic<bool> sleeping_{false};
  TimePoint until_ = kNever;  // when the coordinator's thread wakes at the latest
};

}  // namespace dabke::core
