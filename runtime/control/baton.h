// The right to drive a coordinator. One thread at a time has it: the coordinator's own, or for a while a
// thread that waits for a result and helps. The coordinator's thread gives the baton away when it is wanted
// and there is nothing to do. A helper gives it back when nothing happens any more, or after a while if the
// coordinator's thread waits for it.
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

  /// True if the coordinator's thread waits for the baton, in lock().
  bool is_waited_for() const { return waiting_.load(std::memory_order_relaxed); }
  /// Called by helpers, which use only try_lock().
  void want() { wanted_.fetch_add(1, std::memory_order_relaxed); }
  void want_no_more() { wanted_.fetch_sub(1, std::memory_order_relaxed); }
  bool is_wanted() const { return wanted_.load(std::memory_order_relaxed) != 0; }

 private:
  std::mutex mutex_;
  std::atomic<bool> waiting_{false};
  std::atomic<int> wanted_{0};
};

}  // namespace dabke::control
