// Users' callbacks run on one thread of their own, so that they can hold up neither negotiation nor data.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "runtime/operation.h"

namespace dabke {

class CallbackThread {
 public:
  ~CallbackThread() { stop(); }
  /// Once, before the first callback.
  Status start();
  void push(OperationRef operation);
  /// Runs what is queued, then ends the thread.
  void stop();

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<OperationRef> queue_;
  bool stopping_ = false;
  std::jthread thread_;
};

}  // namespace dabke
