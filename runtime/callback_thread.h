// Users' callbacks run on one thread of their own, so that they can hold up neither negotiation nor data.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "runtime/operation.h"

namespace dabke {

class CallbackThread {
 public:
  ~CallbackThread() { stop(); }
  /// Once, before the first callback.
  Status start();
  /// An operation that has completed and has a callback, once, and never after stop(). Needs no memory.
  void push(OperationRef operation) noexcept;
  /// Runs what is queued, then ends the thread.
  void stop();

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  Operation* first_ = nullptr;  // a list through Extras::next_callback; each is retained
  Operation* last_ = nullptr;
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace dabke
