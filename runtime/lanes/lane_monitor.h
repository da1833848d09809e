// The state that two threads share for a device's runs: the lane's own thread, and the host's lane while it
// is in a run's part.
#pragma once

#include <condition_variable>
#include <mutex>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/exceptions.h"

namespace dabke::lanes {

/// A mutex, with a condition for changes of what it guards. Also keeps the cause of an abort, which ends
/// every wait.
class LaneMonitor {
 public:
  /// Changes something under the mutex and wakes both threads.
  template <class Change>
  void change(Change change) {
    {
      const std::lock_guard lock(mutex_);
      change();
      has_news_ = true;
    }
    changed_.notify_all();
  }
  /// Returns what `read` reads under the mutex.
  template <class Read>
  auto read(Read read) const {
    const std::lock_guard lock(mutex_);
    return read();
  }
  /// Waits until `is_ready`, which is called under the mutex, returns true, or until the abort.
  template <class Ready>
  void wait_until(Ready is_ready) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_ready() || !aborted_.is_ok(); });
  }

  // By the lane's thread.
  /// Calls `take` under the mutex. Earlier changes are no longer news.
  template <class Take>
  void take_news(Take take) {
    const std::lock_guard lock(mutex_);
    take();
    has_news_ = false;
  }
  /// Waits for a change since take_news(). False if none came within `longest`.
  bool wait_for_news(Duration longest) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, longest, [this] { return has_news_; });
  }
  void wait_for_news() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_news_; });
  }

  /// The first cause stays. `abandon_at` is when the lane stops waiting for the device.
  void abort(const Status& cause, TimePoint abandon_at) {
    change([&] {
      if (!aborted_.is_ok()) return;
      aborted_ = Status(cause);
      abandon_at_ = abandon_at;
    });
  }
  /// The cause of the abort; ok if there was none.
  Status aborted() const {
    return read([this] { return copy_of(aborted_); });
  }
  TimePoint abandon_at() const {
    return read([this] { return abandon_at_; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool has_news_ = false;
  Status aborted_;
  TimePoint abandon_at_ = kNever;
};

}  // namespace dabke::lanes
