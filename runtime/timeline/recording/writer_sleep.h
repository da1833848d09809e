// How the writer thread sleeps: at most one producer pays
// for a system call to wake it, and an idle job never does.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace dabke::timeline {

class WriterSleep {
 public:
  /// Sleeps for `limit` at most. `stay_awake` is asked once more
  /// after producers can see that we sleep. One thread only.
  template <class StayAwake>
  void wait(std::chrono::milliseconds limit, StayAwake stay_awake) {
    std::unique_lock lock(mutex_);
    state_ = State::napping;
    if (!stay_awake()) awake_.wait_for(lock, limit, [this] { return state_ == State::awake; });
    state_ = State::awake;
  }

  /// Sleeps until somebody wakes us, without any timer. One thread only.
  template <class StayAwake>
  void sleep(StayAwake stay_awake) {
    std::unique_lock lock(mutex_);
    state_ = State::asleep;
    if (!stay_awake()) awake_.wait(lock, [this] { return state_ == State::awake; });
    state_ = State::awake;
  }

  /// Called after something was put where the sleeper will find it: ends a sleep, and a nap too when
  /// `urgent`. One load in the usual case. May be called from any thread.
  void notify(bool urgent) {
    State seen = state_.load();
    if (seen == State::awake || (seen == State::napping && !urgent)) return;
    if (state_.compare_exchange_strong(seen, State::awake)) notify();
  }

  /// Ends whatever rest there is. From any thread.
  void wake() {
    state_ = State::awake;
    notify();
  }

 private:
  enum class State { awake, napping, asleep };

  void notify() {
    // A sleeper between its last look at the state and its wait holds the mutex; past this line it does not.
    { const std::lock_guard lock(mutex_); }
    awake_.notify_one();
  }

  alignas(64) std::atomic<State> state_{State::awake};  // read by every record: on a line of its own
  alignas(64) std::mutex mutex_;
  std::condition_variable awake_;
};

}  // namespace dabke::timeline
