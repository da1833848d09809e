#include "bindings/c/state.h"

#include <pthread.h>

namespace dabke {
namespace {

struct State {
  std::mutex starting;  // one init or shutdown at a time
  std::mutex mutex;     // guards the members below
  std::shared_ptr<Runtime> runtime;
  const std::shared_ptr<StackSource> stacks = std::make_shared<StackSource>();
  std::shared_ptr<SharedHeap> heap = std::make_shared<SharedHeap>();
  bool watches_forks = false;
  bool forked = false;
};

// The only mutable variable at namespace scope. Never destroyed: a process that ends without dabke_shutdown
// must not say goodbye, because its peers would take the loss for a clean end.
State& state = *new State;

std::string& last_error_text() {
  thread_local std::string text;
  return text;
}

void before_fork() { state.mutex.lock(); }
void after_fork_in_parent() { state.mutex.unlock(); }
void after_fork_in_child() {
  if (state.runtime) {
    state.forked = true;
    state.runtime->close_in_child();
    // Its threads do not exist here, so it can never be destroyed.
    (void)new std::shared_ptr<Runtime>(std::move(state.runtime));
  }
  // The memory that was given out stays where it is, but is the parent's to free.
  state.heap->close_in_child();
  (void)new std::shared_ptr<SharedHeap>(std::exchange(state.heap, std::make_shared<SharedHeap>()));
  state.mutex.unlock();
}

/// Under the state's mutex.
void watch_forks() {
  if (!std::exchange(state.watches_forks, true))
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

}  // namespace

std::shared_ptr<Runtime> current_runtime() {
  const std::lock_guard lock(state.mutex);
  return state.runtime;
}

Status no_runtime() {
  const std::lock_guard lock(state.mutex);
  if (state.forked) {
    return {Code::forked,
            "this process was forked from a rank of a job and is not part of it; only the parent may call, "
            "or exec a new program"};
  }
  return {Code::not_initialized, "call dabke_init first"};
}

Status start_runtime(const std::function<Result<std::unique_ptr<Runtime>>()>& open) {
  const std::lock_guard starting(state.starting);
  if (const auto running = current_runtime()) {
    return {Code::already_initialized, "dabke_init was called before; call dabke_shutdown first"};
  }
  if (const Status none = no_runtime(); none.code() == Code::forked) return none;
  DABKE_ASSIGN(std::unique_ptr<Runtime> opened, open());
  const std::lock_guard lock(state.mutex);
  watch_forks();
  state.runtime = std::move(opened);
  return {};
}

Status stop_runtime() {
  const std::lock_guard starting(state.starting);
  const auto running = current_runtime();
  if (!running) return {};
  Status status = running->shut_down();
  const std::lock_guard lock(state.mutex);
  state.runtime.reset();
  return status;
}

std::shared_ptr<StackSource> stack_source() { return state.stacks; }

std::shared_ptr<SharedHeap> shared_heap() {
  const std::lock_guard lock(state.mutex);
  watch_forks();
  return state.heap;
}

dabke_status report(const Status& status) {
  if (!status) last_error_text() = status.message();
  return static_cast<dabke_status>(status.code());
}

const char* last_error() { return last_error_text().c_str(); }

}  // namespace dabke
