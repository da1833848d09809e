#include "runtime/core/host_lane.h"

#include <cfenv>

#include "runtime/base/exceptions.h"
#include "runtime/base/thread.h"

namespace dabke {
namespace {

constexpr auto kIdleAfter = std::chrono::seconds(5);

}  // namespace

HostLane::HostLane(const std::vector<std::unique_ptr<Backend>>& backends, LaneObserver& observer)
    : runner_(backends), observer_(observer) {}

Status HostLane::start() {
  DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-host-lane", [this] { loop(); }));
  return {};
}

HostLane::~HostLane() { stop(); }

void HostLane::push(std::unique_ptr<Run> run) {
  if (run->timeline) run->timeline->activity_start(run->timeline_ids, "QUEUE");
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(run));
    outstanding_.fetch_add(1);
  }
  changed_.notify_one();
}

void HostLane::abort(const Status& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.is_ok()) aborted_ = Status(cause);
  }
  runner_.abort(cause);
}

void HostLane::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool HostLane::reserve_for(const Run& run) {
  // One that runs on waiters takes what comes, whatever its size, which is not known yet.
  const Backend* const backend =
      run.tensors.empty() ? nullptr : runner_.find(run.batch, {}, *run.process_set);
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
  if (run.timeline) run.timeline->activity_start(run.timeline_ids, "QUEUE");
  perform(run);
  std::fesetenv(&callers);
}

/// The lane is taken already. It is free again before anybody hears of the end, so that who goes on at once
/// finds it so.
void HostLane::perform(Run& run) noexcept {
  std::vector<Ended> ended;
  try {
    if (run.tensors.empty()) {
      runner_.release(run.process_set->id);
    } else {
      ended = execute(run);
    }
  } catch (...) {
    observer_.lane_broke(caught());
  }
  bool goes_on = false;
  {
    const std::lock_guard lock(mutex_);
    taken_ = false;
    goes_on = !queue_.empty() || stopping_;
  }
  if (goes_on) changed_.notify_one();  // the lane's thread, when this is another
  try {
    tell(ended);
  } catch (...) {
    observer_.lane_broke(caught());
  }
  for (Ended& one : ended) (void)one.unit.release();  // the observer knows of those that it was not told of
  observer_.runs_left(outstanding_.fetch_sub(1) - 1);
}

/// Who waits is woken last: he would take the core, and sleep again on the next of the batch.
void HostLane::tell(std::vector<Ended>& ended) {
  std::vector<Ended*> awaited;
  for (Ended& one : ended) {
    if (one.unit->is_awaited()) {
      awaited.push_back(&one);
    } else {
      observer_.unit_finished(std::move(one.unit), one.status);
    }
  }
  for (Ended* const one : awaited) observer_.unit_finished(std::move(one->unit), one->status);
}

std::unique_ptr<Run> HostLane::next() {
  std::unique_lock lock(mutex_);
  const auto something = [this] { return !taken_ && (!queue_.empty() || stopping_); };
  if (!changed_.wait_for(lock, kIdleAfter, something)) {
    if (!std::exchange(taken_, true)) {
      lock.unlock();
      try {
        runner_.idle();
      } catch (...) {
        observer_.lane_broke(caught());
      }
      lock.lock();
      taken_ = false;
    }
    changed_.wait(lock, something);  // idle was said once; now sleep without a limit
  }
  if (queue_.empty()) return nullptr;
  auto run = std::move(queue_.front());
  queue_.pop_front();
  taken_ = true;
  return run;
}

void HostLane::loop() {
  while (auto run = next()) perform(*run);
}

std::vector<HostLane::Ended> HostLane::execute(Run& run) {
  if (run.timeline) run.timeline->activity_end(run.timeline_ids);
  observer_.batch_starts(run);
  const TimePoint start = Clock::now();
  BatchReport report{.kind = run.batch.kind, .tensors = run.tensors.size()};
  std::vector<Status> refused;
  const Status status = without_exceptions([&] { return run_batch(run, report, refused); });
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (run.timeline) {
    for (std::size_t i = 0; i < run.tensors.size(); ++i) {
      const TensorSpec& tensor = *run.tensors[i].tensor;
      const Status& ended = status && !refused.empty() ? refused[i] : status;
      if (ended) {
        run.timeline->op_end(run.timeline_ids[i], tensor.dtype, tensor.shape);
      } else {
        run.timeline->op_error(run.timeline_ids[i], ended);
      }
    }
  }
  observer_.batch_ran(run, report, status);
  return ended_by(run, status, refused);
}

/// The units whose last tensors the run had.
std::vector<HostLane::Ended> HostLane::ended_by(const Run& run, const Status& status,
                                                const std::vector<Status>& refused) {
  std::vector<Ended> ended;
  ended.reserve(run.tensors.size());
  for (std::size_t i = 0; i < run.tensors.size(); ++i) {
    Unit* unit = run.tensors[i].unit;
    if (unit == nullptr) continue;
    if (!refused.empty() && !refused[i]) unit->refused = copy_of(refused[i]);
    if (!status && unit->first_error.is_ok()) unit->first_error = copy_of(status);
    if (--unit->tensors_left == 0)
      ended.push_back({std::unique_ptr<Unit>(unit), std::move(unit->first_error)});
  }
  return ended;
}

Status HostLane::run_batch(Run& run, BatchReport& report, std::vector<Status>& refused) {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_.is_ok()) return aborted_;
  }
  BatchBuilder builder(run);
  if (builder.needs_exchange()) {
    DABKE_RETURN_IF_ERROR(runner_.run(builder.exchange_batch()));
  }
  DABKE_RETURN_IF_ERROR(builder.build());
  if (builder.needs_verdict()) {
    DABKE_RETURN_IF_ERROR(runner_.run(builder.verdict_batch()));
    refused = builder.apply_verdict();
    if (builder.batch().entries.empty()) return {};
  }
  for (const BatchEntry& entry : builder.batch().entries) {
    report.size_bytes += static_cast<std::size_t>(entry.elements) * size_of(run.batch.dtype);
  }
  DABKE_ASSIGN_OR_RETURN(Backend* const backend, runner_.choose(builder.batch()));
  report.backend = backend->name();
  return runner_.run_on(*backend, builder.batch());
}

}  // namespace dabke
