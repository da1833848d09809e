#include "runtime/lanes/host_lane.h"

#include <cfenv>

#include "runtime/base/threads/exceptions.h"
#include "runtime/base/threads/thread.h"
#include "runtime/lanes/batch_builder.h"

namespace dabke::lanes {
HostLane::HostLane(const std::vector<std::unique_ptr<Backend>>& backends, LaneObserver& observer)
    : runner_(backends), observer_(observer) {}

Status HostLane::start() {
  DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-host-lane", [this] { loop(); }));
  return {};
}

HostLane::~HostLane() { stop(); }

void HostLane::push(std::unique_ptr<Run> run) {
  run->batch.trace.begin(timeline::Record::What::queue);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(run), {}});
    outstanding_.fetch_add(1);
  }
  changed_.notify_one();
}

void HostLane::push_part(Part part) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({nullptr, std::move(part)});
  }
  changed_.notify_one();
}

void HostLane::abort(const Status& cause) { runner_.abort(cause); }

void HostLane::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool HostLane::reserve_for(const Run& run) {
  // A backend that runs on waiters takes calls of any size; the size is not known yet.
  const Backend* const backend = run.is_release() ? nullptr : find(run.batch, *run.process_set);
  if (backend == nullptr || !backend->can_run_on_waiters()) return false;
  const std::lock_guard lock(mutex_);
  if (taken_ || !queue_.empty() || stopping_) return false;
  outstanding_.fetch_add(1);
  return taken_ = true;
}

void HostLane::run_here(Run& run) {
  std::fenv_t callers;
  std::fegetenv(&callers);
  std::fesetenv(FE_DFL_ENV);
  run.batch.trace.begin(timeline::Record::What::queue);
  perform(run);
  std::fesetenv(&callers);
}

/// The caller has taken the lane. The lane is free again before the end is reported, so that a thread that
/// goes on at once finds it free.
void HostLane::perform(Run& run) noexcept {
  std::vector<EndedCall> ended;
  try {
    if (run.is_release()) {
      runner_.release(run.process_set->id);
    } else {
      ended = execute(run);
    }
  } catch (...) {
    observer_.lane_broke(caught());
  }
  give_back();
  try {
    report_ended(ended, observer_);
  } catch (...) {
    observer_.lane_broke(caught());
  }
  observer_.run_ended(outstanding_.fetch_sub(1) - 1 < kBusyRuns);
}

void HostLane::give_back() {
  bool goes_on = false;
  {
    const std::lock_guard lock(mutex_);
    taken_ = false;
    goes_on = !queue_.empty() || stopping_;
  }
  if (goes_on) changed_.notify_one();  // the lane's thread, if this is another thread
}

std::optional<HostLane::Queued> HostLane::next() {
  std::unique_lock lock(mutex_);
  const auto something = [this] { return !taken_ && (!queue_.empty() || stopping_); };
  if (!changed_.wait_for(lock, kLaneIdleAfter, something)) {
    if (!std::exchange(taken_, true)) {
      lock.unlock();
      report_idle();
      lock.lock();
      taken_ = false;
    }
    changed_.wait(lock, something);  // backends are notified once; now sleep without a limit
  }
  if (queue_.empty()) return std::nullopt;
  Queued queued = std::move(queue_.front());
  queue_.pop_front();
  taken_ = true;
  return queued;
}

void HostLane::report_idle() {
  try {
    runner_.idle();
  } catch (...) {
    observer_.lane_broke(caught());
  }
}

void HostLane::loop() {
  while (auto queued = next()) {
    if (queued->run) {
      perform(*queued->run);
    } else {
      queued->part(runner_);
      give_back();
    }
  }
}

std::vector<EndedCall> HostLane::execute(Run& run) {
  run.batch.trace.end(timeline::Record::What::queue);
  const TimePoint start = Clock::now();
  running_.starts(run.batch.order, start);
  observer_.batch_starts(run);
  reports::BatchReport report{.kind = run.kind, .tensors = run.tensors.size()};
  Refusals refused;
  const Status status = without_exceptions([&] { return run_batch(run, report, refused); });
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  running_.ends();
  return end_run(run, report, status, refused, observer_);
}

Status HostLane::run_batch(Run& run, reports::BatchReport& report, Refusals& refused) {
  DABKE_RETURN_IF_ERROR(runner_.aborted());
  BatchBuilder builder(run, stream_);
  if (builder.needs_exchange()) {
    DABKE_RETURN_IF_ERROR(runner_.run(builder.exchange_batch()));
  }
  DABKE_RETURN_IF_ERROR(builder.build());
  if (builder.needs_verdict()) {
    DABKE_RETURN_IF_ERROR(runner_.run(builder.verdict_batch()));
    refused = builder.apply_verdict();
    if (run.batch.entries.empty()) return {};
  }
  report.size_bytes = input_bytes(run);
  DABKE_ASSIGN_OR_RETURN(Backend* const backend, runner_.choose(run.batch));
  report.backend = backend->name();
  return runner_.run_on(*backend, run.batch);
}

}  // namespace dabke::lanes
