#include <fmt/format.h>

#include "runtime/base/threads/exceptions.h"
#include "runtime/base/threads/thread.h"
#include "runtime/lanes/device_flight.h"

namespace dabke {
namespace {

// A device's batch takes tens of microseconds; looks at its event cost a core as much.
constexpr int kLooksAtOnce = 64;
constexpr Duration kShortestEventPause = std::chrono::microseconds(20);
constexpr Duration kLongestEventPause = std::chrono::milliseconds(1);

}  // namespace

DeviceLane::DeviceLane(std::shared_ptr<DeviceStream> stream, const std::vector<DeviceBackend*>& backends,
                       const std::vector<Rank>& leaders, HostLane& host, LaneObserver& observer, Log log)
    : stream_(std::move(stream)),
      runner_(std::vector<Backend*>(backends.begin(), backends.end())),
      leaders_(leaders),
      host_(host),
      observer_(observer),
      log_(std::move(log)),
      wide_(*stream_),
      direct_(std::make_unique<FusionBuffer>(*stream_)) {}

DeviceLane::~DeviceLane() { stop(); }

Status DeviceLane::start() {
  DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-device", [this] { loop(); }));
  return {};
}

/// All is decided from what the ranks have agreed on, so their host lanes have the same parts.
void DeviceLane::push(std::unique_ptr<Run> run) {
  run->batch.trace.begin(Record::What::queue);
  run->batch.stream = stream_.get();
  run->batch.device_index = stream_->device().index;
  const auto flight = std::make_shared<Flight>(*this, std::move(run));
  const ProcessSetInfo& set = *flight->run->process_set;
  if (flight->run->is_release()) {
    std::erase_if(with_id_, [&](const auto& row) { return whole_of(row.second) == set.id; });
    hosted_.erase(set.id);
    alike_.erase(set.id);
  } else {
    choose(*flight);
    choose_stream(*flight);
    DeviceBackend* const backend = flight->backend;
    const ProcessSetInfo& ranks = flight->ranks_of_device();
    flight->needs_id = backend != nullptr && backend->id_exchange() != nullptr && ranks.size() > 1 &&
                       with_id_.emplace(backend, ranks.id).second;
    flight->grows_to = growth(*flight);
    if (flight->needs_id || flight->grows_to != 0 || flight->builder.needs_exchange() ||
        flight->host_runs()) {
      flight->host_has = Flight::Host::nothing;
      host_.push_part([this, flight](BackendRunner& host) { run_on_host(*flight, host); });
    }
  }
  {
    const std::lock_guard lock(mutex_);
    pushed_.push_back(flight);
    has_news_ = true;
    outstanding_.fetch_add(1);
  }
  changed_.notify_all();
}

void DeviceLane::abort(const Status& cause) {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_.is_ok()) {
      aborted_ = Status(cause);
      abandon_at_ = Clock::now() + kAbandonAfter;
    }
    has_news_ = true;
  }
  changed_.notify_all();
  runner_.abort(cause);
}

void DeviceLane::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = has_news_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status DeviceLane::aborted() {
  const std::lock_guard lock(mutex_);
  return copy_of(aborted_);
}

void DeviceLane::loop() {
  while (true) {
    try {
      return work();
    } catch (...) {
      observer_.lane_broke(caught());  // who aborts it then
    }
  }
}

void DeviceLane::work() {
  int looks = 0;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      flights_.insert(flights_.end(), pushed_.begin(), pushed_.end());
      pushed_.clear();
      has_news_ = false;
    }
    bool moved = false;
    // Only the oldest of those that are not enqueued goes on; what is behind it waits.
    for (std::size_t i = 0; i < flights_.size(); ++i) {
      if (advance(*flights_[i])) moved = true;
      if (flights_[i]->step != Flight::Step::in_flight) break;
    }
    const std::size_t before = flights_.size();
    end_front();
    if (moved || flights_.size() != before) {
      looks = 0;
      continue;
    }
    if (!wait_a_little(looks)) return;
  }
}

/// Until something was told, or for a moment where an event is awaited. False when the lane is to end.
bool DeviceLane::wait_a_little(int& looks) {
  bool polls = false;
  for (const auto& flight : flights_) polls = polls || flight->is_on_device();
  std::unique_lock lock(mutex_);
  if (stopping_ && flights_.empty() && pushed_.empty()) return false;
  const auto news = [this] { return has_news_; };
  if (!polls) {
    if (changed_.wait_for(lock, kLaneIdleAfter, news)) {
      said_idle_ = false;
    } else if (flights_.empty() && !std::exchange(said_idle_, true)) {
      lock.unlock();
      give_back_memory();
    } else {
      changed_.wait(lock, news);
    }
  } else if (++looks <= kLooksAtOnce) {
    lock.unlock();
    std::this_thread::yield();
  } else {
    const int doublings = std::min(looks - kLooksAtOnce, 6);
    changed_.wait_for(lock, std::min(kShortestEventPause * (1 << doublings), kLongestEventPause), news);
  }
  return true;
}

/// Nothing has run for a while.
void DeviceLane::give_back_memory() {
  runner_.idle();
  wide_.drop();
  direct_->drop();
  DeviceMemory& staging = *stream_->host_memory();
  const std::size_t before = staging.kept_bytes();
  staging.trim();
  if (before != 0)
    log_.debug("{}: {} bytes of pinned host memory are given back", stream_->device().to_string(), before);
}

void DeviceLane::begin(Flight& flight) {
  if (std::exchange(flight.has_begun, true)) return;
  Run& run = *flight.run;
  flight.begun_at = Clock::now();
  run.batch.trace.end(Record::What::queue);
  flight.report = {.kind = run.batch.kind, .tensors = run.tensors.size()};
  if (!running_.look()) running_.starts(run.batch.order, flight.begun_at);
  observer_.batch_starts(run);
}

/// Whether it has come a step further.
bool DeviceLane::advance(Flight& flight) {
  if (flight.run->is_release() || !flight.failed.is_ok()) return false;  // end_front() sees to it
  begin(flight);
  if (flight.recorder) flight.recorder->tell();
  const Flight::Step before = flight.step;
  Status status = aborted();
  if (status.is_ok()) status = without_exceptions([&] { return step(flight); });
  if (status.is_ok()) return flight.step != before;
  if (flight.part != nullptr) {
    status = runner_.fail(*flight.backend, *flight.part, std::move(status));
  } else {
    runner_.end(flight.run->process_set->id, status);  // what comes behind it has no id, or is out of step
  }
  {
    const std::lock_guard lock(mutex_);
    flight.abandon_at = std::min(abandon_at_, Clock::now() + kAbandonAfter);
    if (flight.host_status.is_ok()) flight.host_status = copy_of(status);
  }
  changed_.notify_all();  // its part in the host's lane
  flight.failed = std::move(status);
  return true;
}

/// Whether one that has failed may end: neither the host nor the device works on it.
bool DeviceLane::give_up(Flight& flight) {
  bool launched = false;
  {
    const std::lock_guard lock(mutex_);
    if (flight.host_has != Flight::Host::over) return false;
    launched = flight.launched;
  }
  if (flight.is_launching()) {
    if (!launched) {
      (void)without_exceptions([&] { return flight.backend->poll(); });
      return false;
    }
    flight.step = Flight::Step::in_flight;
  }
  // Behind its collective, too, which may be on the lane's stream alone.
  if (flight.has_enqueued && flight.stream != stream_.get()) {
    (void)without_exceptions([&]() -> Status {
      DABKE_ASSIGN_OR_RETURN(const auto collective, stream_->record());
      return flight.stream->wait_for(collective);
    });
  }
  // Where no event can be had the device is lost, and does nothing any more.
  if (flight.has_enqueued && !without_exceptions([&] { return record_behind(flight); }).is_ok())
    flight.event = nullptr;
  if (flight.event != nullptr) {
    const Result<bool> reached = flight.event->is_reached();
    if (!reached || *reached) flight.event = nullptr;
  }
  return flight.event == nullptr;
}

void DeviceLane::end_front() {
  while (!flights_.empty()) {
    const std::shared_ptr<Flight> flight = flights_.front();
    if (flight->run->is_release()) {
      runner_.release(flight->run->process_set->id);
      flights_.pop_front();
      observer_.run_ended(outstanding_.fetch_sub(1) - 1 < kBusyRuns);
      continue;
    }
    if (flight->failed.is_ok()) {
      if (flight->step != Flight::Step::in_flight || flight->event != nullptr) return;
    } else if (give_up(*flight)) {
      went_on_at_ = Clock::now();
    } else {
      if (Clock::now() < std::max(flight->abandon_at, went_on_at_ + kAbandonAfter)) return;
      {
        const std::lock_guard lock(mutex_);
        if (flight->host_has != Flight::Host::over) return;  // ends soon: the host's lane is aborted, too
      }
      abandon(flight);
    }
    flights_.pop_front();
    end(flight, flight->failed);
  }
}

/// The device may still write: what it was given is never freed.
void DeviceLane::abandon(const std::shared_ptr<Flight>& flight) {
  struct Kept {
    std::shared_ptr<Flight> flight;
    std::vector<OperationRef> operations;  // with the outputs that are ours
  };
  auto kept = std::make_shared<Kept>();
  kept->flight = flight;
  for (const RunTensor& tensor : flight->run->tensors) {
    if (tensor.operation != nullptr) kept->operations.emplace_back(tensor.operation);
  }
  stream_->keep(kept);
  (void)attempt([&] {
    log_.error(
        "{} has not come to the end of {} '{}' and {} more within {} s of its failure, or of the end of what "
        "was before it; its memory is not used again",
        stream_->device().to_string(), name_of(flight->run->batch.kind),
        flight->run->tensors.front().tensor->name, flight->run->tensors.size() - 1,
        std::chrono::duration<double>(kAbandonAfter).count());
  });
}

void DeviceLane::end(const std::shared_ptr<Flight>& flight, const Status& status) {
  struct OneLess {
    ~OneLess() { lane.observer_.run_ended(lane.outstanding_.fetch_sub(1) - 1 < kBusyRuns); }
    DeviceLane& lane;
  };
  const OneLess one_less{*this};
  if (!status.is_ok() && flight->is_direct) {
    (void)direct_.release();  // MPI cannot be made to let go of it
    direct_ = std::make_unique<FusionBuffer>(*stream_);
  }
  if (flight->recorder) flight->recorder->end();
  flight->report.seconds = std::chrono::duration<double>(Clock::now() - flight->begun_at).count();
  running_.ends();
  if (!flights_.empty() && flights_.front()->has_begun)
    running_.starts(flights_.front()->run->batch.order, flights_.front()->begun_at);
  std::vector<EndedCall> ended = end_run(*flight->run, flight->report, status, flight->refused, observer_);
  tell(ended, observer_);
}

}  // namespace dabke
