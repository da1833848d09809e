// Users' callbacks run on one thread of their own, so that they can hold up neither negotiation nor data.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "runtime/operation/operation.h"

namespace dabke {

class CallbackThread {
 public:
  ~CallbackThread() { stop(); }
  /// Called once, before the first callback. `failed` is told what a callback has thrown, on the thread.
  Status start(std::function<void(Status cause)> failed);
  /// An operation that has completed and has a callback, once, and never after stop(). Needs no memory.
  void push(OperationRef operation) noexcept;
  /// Runs what is queued, then ends the thread.
  void stop();

 private:
  void loop();
  void call(const OperationRef& operation);

  std::function<void(Status cause)> failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Operation* first_ = nullptr;  // a list through Extras::next_callback; each is retained
  Operation* last_ = nullptr;
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace dabke
