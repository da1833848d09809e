#include "runtime/callback_thread.h"

#include <cassert>

#include "runtime/base/thread.h"

namespace dabke {

Status CallbackThread::start() {
  DABKE_ASSIGN(thread_, start_thread("dabke-callback", [this] { loop(); }));
  return {};
}

void CallbackThread::push(OperationRef operation) noexcept {
  {
    const std::lock_guard lock(mutex_);
    assert(!stopping_ && "nothing completes once the coordinator has ended: Coordinator::submit refuses it");
    Operation* const added = operation.detach();
    (last_ == nullptr ? first_ : last_->make_extras().next_callback) = added;
    last_ = added;
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
    changed_.wait(lock, [this] { return first_ != nullptr || stopping_; });
    if (first_ == nullptr) return;
    OperationRef operation = OperationRef::adopt(first_);
    first_ = operation->extras().next_callback;
    if (first_ == nullptr) last_ = nullptr;
    lock.unlock();
    operation->extras().callback(*operation);
    operation = {};
    lock.lock();
  }
}

}  // namespace dabke
