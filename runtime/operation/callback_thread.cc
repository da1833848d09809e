#include "runtime/operation/callback_thread.h"

#include <cassert>

#include <fmt/format.h>

#include "runtime/base/threads/exceptions.h"
#include "runtime/base/threads/thread.h"

namespace dabke {

Status CallbackThread::start(std::function<void(Status cause)> failed) {
  failed_ = std::move(failed);
  DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-callback", [this] { loop(); }));
  return {};
}

void CallbackThread::push(OperationRef operation) noexcept {
  {
    const std::lock_guard lock(mutex_);
    assert(!stopping_ && "nothing completes once the coordinator has ended: Coordinator::submit refuses it");
    Operation* const added = operation.detach();
    (last_ == nullptr ? first_ : last_->make_extras().next_callback) = added;
    last_ = added;
    is_wake_due_.store(true, std::memory_order_relaxed);
  }
}

/// The mutex orders a push before the notification, also if another thread's wake() has taken the flag.
void CallbackThread::wake() noexcept {
  if (!is_wake_due_.load(std::memory_order_relaxed)) return;  // the usual case of a call that a thread awaits
  {
    const std::lock_guard lock(mutex_);
    if (!is_wake_due_.exchange(false, std::memory_order_relaxed)) return;
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
    call(operation);
    operation = {};
    lock.lock();
  }
}

void CallbackThread::call(const OperationRef& operation) {
  const Status called = without_exceptions([&]() -> Status {
    operation->extras().callback(*operation);
    return {};
  });
  if (called.is_ok()) return;
  failed_(without_exceptions([&]() -> Status {
    return {called.code(),
            fmt::format("the callback of '{}' threw: {}", operation->request->name, called.message())};
  }));
}

}  // namespace dabke
