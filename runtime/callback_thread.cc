#include "runtime/callback_thread.h"

#include "runtime/base/thread.h"

namespace dabke {

Status CallbackThread::start() {
  DABKE_ASSIGN(thread_, start_thread("dabke-callback", [this] { loop(); }));
  return {};
}

void CallbackThread::push(OperationRef operation) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(operation));
  }
  changed_.notify_one();
}

void CallbackThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void CallbackThread::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !queue_.empty() || stopping_; });
    if (queue_.empty()) return;
    OperationRef operation = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    operation->extras().callback(*operation);
    operation = {};
    lock.lock();
  }
}

}  // namespace dabke
