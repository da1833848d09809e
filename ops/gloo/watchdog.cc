#include "ops/gloo/watchdog.h"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/base/threads/exceptions.h"
#include "runtime/base/threads/thread.h"

namespace dabke::ops {

constexpr auto kAskAgain = std::chrono::seconds(1);

// The interval at which interrupting is repeated until the run has ended. Gloo may have been about to make a
// socket, or to begin a wait.
constexpr auto kAgain = std::chrono::milliseconds(5);

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

Status Watchdog::begin(GlooContext* context, TimePoint deadline, Status on_deadline, const Note& note) {
  const TimePoint late_at = Clock::now() + kLateAfter;
  bool must_wake = deadline != kNever;
  {
    const std::lock_guard lock(mutex_);
    DABKE_RETURN_IF_ERROR(latch_.aborted());
    // Starts the thread only with the first run, so a process that never uses Gloo has no such thread. A run
    // without the thread is refused: nothing else ends a run whose peer is gone.
    if (!thread_.joinable()) {
      DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-gloo", [this] { loop(); }));
    }
    running_ = context;
    deadline_ = deadline;
    on_deadline_ = std::move(on_deadline);
    ended_by_ = Status::ok();
    note_ = note;
    late_at_ = late_at;
    ++runs_;
    must_wake = must_wake || dozes_;  // else the thread wakes by itself before this run is late
  }
  if (must_wake) changed_.notify_all();
  return Status::ok();
}

Status Watchdog::end() {
  const std::lock_guard lock(mutex_);
  running_ = nullptr;
  return std::exchange(ended_by_, Status::ok());
}

void Watchdog::abort(const Status& cause) {
  {
    const std::lock_guard lock(mutex_);  // so that the thread does not go to sleep at this moment
    if (!latch_.abort(cause)) return;
  }
  changed_.notify_all();
}

Status Watchdog::ended() const {
  if (latch_.is_aborted()) return latch_.aborted();
  const std::lock_guard lock(mutex_);
  return ended_by_;
}

void Watchdog::rest() {
  {
    const std::lock_guard lock(mutex_);
    if (running_ != nullptr) return;
    late_at_ = kNever;
  }
  changed_.notify_all();
}

void Watchdog::loop() {
  std::unique_lock lock(mutex_);
  TimePoint next_look = kNever;
  std::uint64_t runs_before = 0;  // at the last check
  while (!stopping_) {
    const TimePoint now = Clock::now();
    if (running_ != nullptr && ended_by_.is_ok()) ended_by_ = reason_to_end(now, now >= next_look);
    if (running_ != nullptr && !ended_by_.is_ok()) {
      try {
        running_->interrupt();  // under the lock, so that the context cannot go away meanwhile
      } catch (...) {
        // No memory: the loop tries again.
      }
      changed_.wait_for(lock, kAgain);
      continue;
    }
    if (running_ != nullptr && now >= late_at_) {
      ask_about_run(lock);
      continue;
    }
    const bool is_used = running_ != nullptr || runs_ != runs_before;
    if (look_every_ <= Duration::zero() || !is_used) {
      next_look = kNever;
    } else if (next_look == kNever || now >= next_look) {
      next_look = now + look_every_;
      runs_before = runs_;
    }
    TimePoint until = next_look;
    if (running_ != nullptr) {
      until = std::min({until, deadline_, late_at_});
    } else if (now < late_at_) {
      until = std::min(until, late_at_);
    }
    dozes_ = until == kNever;
    if (dozes_) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, until);
    }
    dozes_ = false;
  }
}

/// Returns an error if the current run has to end.
Status Watchdog::reason_to_end(TimePoint now, bool look) {
  if (latch_.is_aborted()) return copy_of(latch_.aborted());
  if (now >= deadline_) return copy_of(on_deadline_);
  try {
    return look ? look_(*running_) : Status::ok();
  } catch (const std::bad_alloc&) {
    return Status::ok();  // the next check may have memory
  }
}

/// Releases the lock during the question, because the store may be slow.
void Watchdog::ask_about_run(std::unique_lock<std::mutex>& lock) {
  const Note note = note_;
  const std::uint64_t run = runs_;
  lock.unlock();
  Status answer = ask_(note);
  lock.lock();
  if (run != runs_ || running_ == nullptr) return;
  late_at_ = Clock::now() + kAskAgain;
  if (!answer.is_ok() && ended_by_.is_ok()) ended_by_ = std::move(answer);
}

}  // namespace dabke::ops
