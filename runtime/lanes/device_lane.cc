#include "runtime/lanes/device_lane.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/base/text/call_name.h"
#include "runtime/base/threads/exceptions.h"
#include "runtime/base/threads/thread.h"

namespace dabke::lanes {
namespace {

// A device's batch takes tens of microseconds; polling its event occupies a core for as long.
constexpr int kPollsAtOnce = 64;
constexpr Duration kShortestEventPause = std::chrono::microseconds(20);
constexpr Duration kLongestEventPause = std::chrono::milliseconds(1);

}  // namespace

DeviceLane::DeviceLane(std::shared_ptr<DeviceStream> stream, const std::vector<DeviceBackend*>& backends,
                       const std::vector<Rank>& leaders, HostLane& host, LaneObserver& observer, Log log)
    : parts_(std::move(stream), backends),
      planner_(*parts_.stream, parts_.runner, leaders),
      host_(host),
      observer_(observer),
      log_(std::move(log)) {}

DeviceLane::~DeviceLane() { stop(); }

Status DeviceLane::start() {
  DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-device", [this] { loop(); }));
  return {};
}

/// The plan follows from what the ranks have agreed on, so their host lanes have the same parts.
void DeviceLane::push(std::unique_ptr<Run> run) {
  Batch& batch = run->batch;
  batch.trace.begin(timeline::Record::What::queue);
  batch.stream = parts_.stream.get();
  batch.device_index = parts_.stream->device().index;
  DevicePlan plan;
  if (run->is_release()) {
    planner_.release(run->process_set->id);
  } else {
    plan = planner_.plan(*run);
    if (plan.stream != parts_.stream.get()) {
      batch.stream = plan.stream;
      batch.ordered = parts_.stream.get();
    }
  }
  const auto pushed = std::make_shared<DeviceRun>(parts_, std::move(run), std::move(plan));
  if (!pushed->is_release() && pushed->host_part().is_needed())
    host_.push_part([pushed](BackendRunner& host) { pushed->host_part().run(host); });
  parts_.monitor.change([&] {
    pushed_.push_back(pushed);
    outstanding_.fetch_add(1);
  });
}

void DeviceLane::abort(const Status& cause) {
  parts_.monitor.abort(cause, Clock::now() + kAbandonAfter);
  parts_.runner.abort(cause);
}

void DeviceLane::stop() {
  parts_.monitor.change([this] { stopping_ = true; });
  if (thread_.joinable()) thread_.join();
}

void DeviceLane::loop() {
  while (true) {
    try {
      return work();
    } catch (...) {
      observer_.lane_broke(caught());  // the observer then aborts the lane
    }
  }
}

void DeviceLane::work() {
  int polls = 0;
  while (true) {
    parts_.monitor.take_news([this] {
      runs_.insert(runs_.end(), pushed_.begin(), pushed_.end());
      pushed_.clear();
    });
    bool moved = false;
    // Only the oldest run that is not enqueued goes on; the runs behind it wait.
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (advance(*runs_[i])) moved = true;
      if (!runs_[i]->is_enqueued()) break;
    }
    const std::size_t before = runs_.size();
    end_front();
    if (moved || runs_.size() != before) {
      polls = 0;
      continue;
    }
    if (!wait_a_little(polls)) return;
  }
}

/// Waits until there is news, or for a moment if an event is awaited. False if the lane must end.
bool DeviceLane::wait_a_little(int& polls) {
  LaneMonitor& monitor = parts_.monitor;
  if (monitor.read([this] { return stopping_ && runs_.empty() && pushed_.empty(); })) return false;
  const bool has_events = std::ranges::any_of(runs_, [](const auto& run) { return run->is_on_device(); });
  if (!has_events) {
    if (monitor.wait_for_news(kLaneIdleAfter)) {
      is_idle_ = false;
    } else if (runs_.empty() && !std::exchange(is_idle_, true)) {
      give_back_memory();
    } else {
      monitor.wait_for_news();
    }
  } else if (++polls <= kPollsAtOnce) {
    std::this_thread::yield();
  } else {
    const int doublings = std::min(polls - kPollsAtOnce, 6);
    monitor.wait_for_news(std::min(kShortestEventPause * (1 << doublings), kLongestEventPause));
  }
  return true;
}

/// Called when nothing has run for a while.
void DeviceLane::give_back_memory() {
  parts_.runner.idle();
  parts_.wide.drop();
  parts_.direct->drop();
  DeviceMemory& staging = *parts_.stream->host_memory();
  const std::size_t before = staging.kept_bytes();
  staging.trim();
  if (before != 0)
    log_.debug("{}: {} bytes of pinned host memory are freed", parts_.stream->device().to_string(), before);
}

void DeviceLane::begin(DeviceRun& run) {
  if (run.begun_at()) return;
  run.begin(Clock::now());
  if (!running_.running()) running_.starts(run.run().batch.order, *run.begun_at());
  observer_.batch_starts(run.run());
}

/// True if the run has come a step further.
bool DeviceLane::advance(DeviceRun& run) {
  if (run.is_release() || !run.failed().is_ok()) return false;  // end_front() ends it
  begin(run);
  run.report_times();
  const int before = run.step();
  Status status = parts_.monitor.aborted();
  if (status.is_ok()) status = without_exceptions([&] { return run.advance(runs_.front().get() == &run); });
  if (status.is_ok()) return run.step() != before;
  run.fail(std::move(status), std::min(parts_.monitor.abandon_at(), Clock::now() + kAbandonAfter));
  return true;
}

void DeviceLane::end_front() {
  while (!runs_.empty()) {
    const std::shared_ptr<DeviceRun> run = runs_.front();
    if (run->is_release()) {
      parts_.runner.release(run->run().process_set->id);
      runs_.pop_front();
      observer_.run_ended(outstanding_.fetch_sub(1) - 1 < kBusyRuns);
      continue;
    }
    if (!may_end(run)) return;
    runs_.pop_front();
    end(*run);
  }
}

bool DeviceLane::may_end(const std::shared_ptr<DeviceRun>& run) {
  if (run->failed().is_ok()) return run->has_ended();
  if (run->may_end()) {
    last_failure_ended_ = Clock::now();
    return true;
  }
  if (Clock::now() < std::max(run->abandon_at(), last_failure_ended_ + kAbandonAfter)) return false;
  if (!run->is_host_over()) return false;  // it ends soon: the host's lane is aborted, too
  abandon(run);
  return true;
}

/// The device may still write to the memory that it was given, so that memory is never freed.
void DeviceLane::abandon(const std::shared_ptr<DeviceRun>& run) {
  struct Kept {
    std::shared_ptr<DeviceRun> run;
    std::vector<OperationRef> operations;  // with the outputs that the runtime owns
  };
  auto kept = std::make_shared<Kept>();
  kept->run = run;
  const std::vector<RunTensor>& tensors = run->run().tensors;
  for (const RunTensor& tensor : tensors) {
    if (tensor.operation != nullptr) kept->operations.emplace_back(tensor.operation);
  }
  parts_.stream->keep(kept);
  (void)attempt([&] {
    log_.error(
        "{} has not finished {} and {} more within {} s of its failure, or of the end of earlier work; its "
        "memory is not used again",
        parts_.stream->device().to_string(), name_of_call(run->run().kind, tensors.front().tensor->name),
        tensors.size() - 1, std::chrono::duration<double>(kAbandonAfter).count());
  });
}

void DeviceLane::end(DeviceRun& run) {
  struct OneLess {
    ~OneLess() { lane.observer_.run_ended(lane.outstanding_.fetch_sub(1) - 1 < kBusyRuns); }
    DeviceLane& lane;
  };
  const OneLess one_less{*this};
  const reports::BatchReport report = run.finish();
  running_.ends();
  if (!runs_.empty() && runs_.front()->begun_at())
    running_.starts(runs_.front()->run().batch.order, *runs_.front()->begun_at());
  std::vector<EndedCall> ended = end_run(run.run(), report, run.failed(), run.refused(), observer_);
  report_ended(ended, observer_);
}

}  // namespace dabke::lanes
