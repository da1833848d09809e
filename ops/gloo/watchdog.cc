#include "ops/gloo/watchdog.h"

#include <utility>

#include "runtime/base/thread.h"

namespace dabke {

// Interrupting is repeated until the run has ended: Gloo may just have been about to make a socket, or to
// wait.
constexpr auto kAgain = std::chrono::milliseconds(5);

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

Status Watchdog::begin(GlooContext* context, TimePoint deadline, Status on_deadline) {
  {
    const std::lock_guard lock(mutex_);
    DABKE_CHECK(aborted_);
    // Not before the first run: a process that never uses Gloo has no thread for it. And no run without it:
    // nothing else ends one whose peer is gone.
    if (!thread_.joinable()) {
      DABKE_ASSIGN(thread_, start_thread("dabke-gloo", [this] { loop(); }));
    }
    running_ = context;
    deadline_ = deadline;
    on_deadline_ = std::move(on_deadline);
    ended_by_ = Status::ok();
  }
  if (deadline != kNever) changed_.notify_all();
  return Status::ok();
}

Status Watchdog::end() {
  const std::lock_guard lock(mutex_);
  running_ = nullptr;
  return std::exchange(ended_by_, Status::ok());
}

void Watchdog::abort(const Status& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_.is_ok()) return;
    aborted_ = cause;
  }
  changed_.notify_all();
}

Status Watchdog::aborted() const {
  const std::lock_guard lock(mutex_);
  return aborted_;
}

void Watchdog::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const bool is_late = running_ != nullptr && Clock::now() >= deadline_;
    if (running_ != nullptr && ended_by_.is_ok() && (is_late || !aborted_.is_ok())) {
      ended_by_ = aborted_.is_ok() ? on_deadline_ : aborted_;
    }
    if (running_ != nullptr && !ended_by_.is_ok()) {
      running_->interrupt();  // under the lock, so that it cannot go away meanwhile
      changed_.wait_for(lock, kAgain);
    } else if (running_ == nullptr || deadline_ == kNever) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, deadline_);
    }
  }
}

}  // namespace dabke
