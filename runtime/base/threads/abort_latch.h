// What ends everything: the first cause, told once and for good.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>

#include "runtime/base/status.h"

namespace dabke {

/// Wakes nobody: who may be asleep is woken by whoever owns the latch, once it is set.
class AbortLatch {
 public:
  /// From any thread. The first cause stays; whether this was it. Throws where there is no memory for a copy,
  /// and has changed nothing then.
  bool abort(const Status& cause) {
    Status copy(cause);
    const std::lock_guard lock(mutex_);
    if (is_aborted()) return false;
    cause_ = std::move(copy);
    is_aborted_.store(true, std::memory_order_seq_cst);
    return true;
  }
  /// For loops: costs a load. Sequentially consistent, so that of two ranks or threads that each tell the
  /// other something and then look, one sees what it was told.
  bool is_aborted() const { return is_aborted_.load(std::memory_order_seq_cst); }
  /// ok, or the cause. From any thread: it never changes again.
  const Status& aborted() const { return is_aborted() ? cause_ : ok_; }

 private:
  const Status ok_{};
  std::mutex mutex_;  // of those who abort
  Status cause_;
  std::atomic<bool> is_aborted_{false};
};

}  // namespace dabke
