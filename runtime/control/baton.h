// Who drives a coordinator: its own thread, or for a while a thread that waits for a result and helps. One at
// a time. The coordinator's thread gives it away as soon as it is wanted and there is nothing to do; a helper
// when nothing happens any more, or after a while when it is waited for.
#pragma once

#include <atomic>
#include <mutex>

namespace dabke::control {

class Baton {
 public:
  void lock() {
    waiting_.store(true, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.store(false, std::memory_order_relaxed);
  }
  void unlock() { mutex_.unlock(); }
  bool try_lock() { return mutex_.try_lock(); }

  /// Whether the coordinator's thread waits for it, in lock().
  bool is_waited_for() const { return waiting_.load(std::memory_order_relaxed); }
  /// Called by helpers, who only try.
  void want() { wanted_.fetch_add(1, std::memory_order_relaxed); }
  void want_no_more() { wanted_.fetch_sub(1, std::memory_order_relaxed); }
  bool is_wanted() const { return wanted_.load(std::memory_order_relaxed) != 0; }

 private:
  std::mutex mutex_;
  std::atomic<bool> waiting_{false};
  std::atomic<int> wanted_{0};
};

}  // namespace dabke::control
