// The first cause that ends everything, set once and readable without a lock.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>

#include "runtime/base/status.h"

namespace dabke {

/// The latch wakes no thread: its owner sets it and then wakes the threads that may sleep.
class AbortLatch {
 public:
  /// From any thread. Keeps the first cause, and returns true if it is this one. Throws if there is no memory
  /// for a copy, and then changes nothing.
  bool abort(const Status& cause) {
    Status copy(cause);
    const std::lock_guard lock(mutex_);
    if (is_aborted()) return false;
    cause_ = std::move(copy);
    is_aborted_.store(true, std::memory_order_seq_cst);
    return true;
  }
  /// Costs one load, for use in loops. Sequentially consistent: when two ranks or threads each write
  /// something for the other and then read, at least one of them reads the other's write.
  bool is_aborted() const { return is_aborted_.load(std::memory_order_seq_cst); }
  /// ok, or the cause, which never changes again. From any thread.
  const Status& aborted() const { return is_aborted() ? cause_ : ok_; }

 private:
  const Status ok_{};
  std::mutex mutex_;  // serializes calls of abort()
  Status cause_;
  std::atomic<bool> is_aborted_{false};
};

}  // namespace dabke
