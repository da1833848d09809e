// Users' callbacks run on one thread of their own, so that they can delay neither negotiation nor data.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/operation/operation.h"

namespace dabke {

class CallbackThread {
 public:
  ~CallbackThread() { stop(); }
  /// Called once, before the first callback. `failed` is called on the callback thread if a callback has
  /// thrown, with the error.
  Status start(std::function<void(Status cause)> failed);
  /// Queues an operation that has completed and has a callback. Called once per operation, and never after
  /// stop(). The caller calls wake() behind its last push. Needs no memory.
  void push(OperationRef operation) noexcept;
  /// Wakes the thread if something was pushed since the last call. A batch of many operations wakes it once:
  /// otherwise it would take the core after each push, and sleep again.
  void wake() noexcept;
  /// Runs what is queued, then ends the thread.
  void stop();

 private:
  void loop();
  void call(const OperationRef& operation);

  std::function<void(Status cause)> failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Operation* first_ = nullptr;  // a list through Extras::next_callback; each operation is retained
  Operation* last_ = nullptr;
  bool stopping_ = false;
  std::atomic<bool> is_wake_due_{false};
  std::jthread thread_;
};

}  // namespace dabke
