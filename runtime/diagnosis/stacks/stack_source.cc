#include "runtime/diagnosis/stacks/stack_source.h"

#include <condition_variable>

#include "runtime/base/threads/thread.h"

namespace dabke::diagnosis {

struct StackSource::Call {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::string text;
};

void StackSource::set(Provider provider) {
  const std::lock_guard lock(mutex_);
  provider_ = provider ? std::make_shared<const Provider>(std::move(provider)) : nullptr;
}

std::string StackSource::ask(Duration limit) {
  constexpr const char* kNoAnswer =
      "(the stack provider has not returned: it may wait for a lock that a thread holds, such as an "
      "interpreter's)";
  std::shared_ptr<const Provider> provider;
  std::shared_ptr<Call> call;
  {
    const std::lock_guard lock(mutex_);
    if (!provider_) return "";
    provider = provider_;
    if (call_) {
      const std::lock_guard of_call(call_->mutex);
      if (!call_->done) return kNoAnswer;
    }
    call = call_ = std::make_shared<Call>();
  }
  // Detached, because the provider may never return. The thread uses only objects that it owns.
  auto started = start_thread("dabke-stack", [provider, call] {
    std::string text;
    try {
      text = (*provider)();
    } catch (...) {
      text = "(it failed)";  // short enough to need no allocation
    }
    const std::lock_guard lock(call->mutex);
    call->text = std::move(text);
    call->done = true;
    call->changed.notify_all();
  });
  if (!started) {
    const std::lock_guard of_call(call->mutex);
    call->done = true;
    return "(the stack provider was not called: " + started.status().message() + ")";
  }
  started->detach();
  std::unique_lock lock(call->mutex);
  return call->changed.wait_for(lock, limit, [&] { return call->done; }) ? call->text : kNoAnswer;
}

}  // namespace dabke::diagnosis
