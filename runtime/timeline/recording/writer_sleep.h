// The sleep of the writer thread. At most one producer makes the system call that wakes it; an idle job makes
// none.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace dabke::timeline {

class WriterSleep {
 public:
  /// Sleeps for at most `limit`. `stay_awake` is called once more after producers can see that this thread
  /// sleeps. Only one thread may sleep here.
  template <class StayAwake>
  void wait(std::chrono::milliseconds limit, StayAwake stay_awake) {
    std::unique_lock lock(mutex_);
    state_ = State::napping;
    if (!stay_awake()) awake_.wait_for(lock, limit, [this] { return state_ == State::awake; });
    state_ = State::awake;
  }

  /// Sleeps without a timer until another thread wakes this one. Only one thread may sleep here.
  template <class StayAwake>
  void sleep(StayAwake stay_awake) {
    std::unique_lock lock(mutex_);
    state_ = State::asleep;
    if (!stay_awake()) awake_.wait(lock, [this] { return state_ == State::awake; });
    state_ = State::awake;
  }

  /// Call it after adding work for the sleeper. Ends a sleep, and if `urgent` also a nap. Usually costs one
  /// load. Any thread may call it.
  void notify(bool urgent) {
    State seen = state_.load();
    if (seen == State::awake || (seen == State::napping && !urgent)) return;
    if (state_.compare_exchange_strong(seen, State::awake)) notify();
  }

  /// Ends any sleep or nap. Any thread may call it.
  void wake() {
    state_ = State::awake;
    notify();
  }

 private:
  enum class State { awake, napping, asleep };

  void notify() {
    // Between its last read of the state and its wait, a sleeper holds the mutex. Past this line it does not.
    { const std::lock_guard lock(mutex_); }
    awake_.notify_one();
  }

  alignas(64) std::atomic<State> state_{
      State::awake};  // on a cache line of its own, since every record reads it
  alignas(64) std::mutex mutex_;
  std::condition_variable awake_;
};

}  // namespace dabke::timeline
