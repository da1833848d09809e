#include "runtime/core/device_lane.h"

#include <numeric>

#include <fmt/format.h>

#include "runtime/backend/packer.h"
#include "runtime/base/exceptions.h"
#include "runtime/base/thread.h"
#include "runtime/core/batch_builder.h"

namespace dabke {
namespace {

// A device's batch takes tens of microseconds; looks at its event cost a core as much.
constexpr int kLooksAtOnce = 64;
constexpr Duration kShortestPause = std::chrono::microseconds(20);
constexpr Duration kLongestPause = std::chrono::milliseconds(1);
constexpr Duration kIdleAfter = std::chrono::seconds(5);

std::int64_t sum_of(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::int64_t output_elements(const Batch& batch, const BatchEntry& entry) {
  if (!divides_rows(batch.kind)) return entry.elements;
  if (!reduces(batch.kind)) return sum_of(entry.receive_counts);
  return entry.receive_counts[static_cast<std::size_t>(batch.process_set->rank)];
}

}  // namespace

/// A run on its way.
struct DeviceLane::Flight {
  enum class Step { make_id, build, stage, staging, launch, launching, in_flight };
  /// What one lane has done for the other to go on.
  enum class Device { nothing, made_id, built, staged };
  enum class Host { nothing, exchanged, agreed, over };
  struct Staged {
    void* device;
    void* host;
    std::size_t bytes;
  };

  Flight(DeviceLane& of, std::unique_ptr<Run> what)
      : lane(of), run(std::move(what)), builder(*run, of.stream()) {}

  /// Whether something of it is, or may be, on its way there.
  bool is_on_device() const { return event != nullptr || step == Step::launching; }
  static void enqueued(void* context, const Status& status) {
    Flight& flight = *static_cast<Flight*>(context);
    const std::lock_guard lock(flight.lane.mutex_);
    flight.launched = true;
    if (!status.is_ok()) flight.launch_status = copy_of(status);
    flight.lane.has_news_ = true;
    flight.lane.changed_.notify_all();
  }

  DeviceLane& lane;
  std::unique_ptr<Run> run;
  BatchBuilder builder;
  Backend* backend = nullptr;  // null: it runs on the host
  bool needs_id = false;

  // The device's.
  Step step = Step::make_id;
  bool has_begun = false;
  TimePoint begun_at{};
  bool has_enqueued = false;           // something that no event has been recorded behind
  std::shared_ptr<DeviceEvent> event;  // what is on its way at the device
  std::vector<Staged> outputs;
  const char* activity = nullptr;  // that is shown
  Status failed;                   // it waits for the device to come to its end, and ends with this
  TimePoint abandon_at = kNever;
  BatchReport report;

  // The host's until it is over, then the device's.
  Batch on_host;
  std::vector<std::byte> id;
  Refusals refused;

  // Guarded by the lane's mutex.
  Device device_has = Device::nothing;
  Host host_has = Host::over;
  Status host_status;
  bool launched = false;
  Status launch_status;
};

DeviceLane::DeviceLane(std::shared_ptr<DeviceStream> stream, std::vector<Backend*> backends, HostLane& host,
                       LaneObserver& observer, Log log)
    : stream_(std::move(stream)),
      runner_(std::move(backends)),
      host_(host),
      observer_(observer),
      log_(std::move(log)) {}

DeviceLane::~DeviceLane() { stop(); }

Status DeviceLane::start() {
  DABKE_ASSIGN_OR_RETURN(thread_, start_thread("dabke-device", [this] { loop(); }));
  return {};
}

bool DeviceLane::can_run(const CallSpec& call, const ProcessSetInfo& set) const {
  if (runner_.find(call, {}, set) != nullptr) return true;
  CallSpec staged = call;
  staged.device_type = DeviceType::host;
  return host_.find(staged, set) != nullptr;
}

/// All is decided from what the ranks have agreed on, so their host lanes have the same parts.
void DeviceLane::push(std::unique_ptr<Run> run) {
  if (run->timeline) run->timeline->activity_start(run->timeline_ids, "QUEUE");
  run->batch.stream = stream_.get();
  run->batch.device_index = stream_->device().index;
  const auto flight = std::make_shared<Flight>(*this, std::move(run));
  const ProcessSetInfo& set = *flight->run->process_set;
  if (flight->run->is_release()) {
    std::erase_if(with_id_, [&](const auto& row) { return row.second == set.id; });
  } else {
    flight->backend = runner_.find(flight->run->batch, {}, set);
    const Backend* const backend = flight->backend;
    flight->needs_id = backend != nullptr && backend->unique_id_bytes() != 0 && set.size() > 1 &&
                       with_id_.emplace(backend, set.id).second;
    if (flight->needs_id || flight->builder.needs_exchange() || backend == nullptr) {
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

// ---- the host's steps

void DeviceLane::run_on_host(Flight& flight, BackendRunner& host) {
  Status status = without_exceptions([&] { return take_host_steps(flight, host); });
  {
    const std::lock_guard lock(mutex_);
    flight.host_status = std::move(status);
    flight.host_has = Flight::Host::over;
    has_news_ = true;
  }
  changed_.notify_all();
}

Status DeviceLane::take_host_steps(Flight& flight, BackendRunner& host) {
  using Device = Flight::Device;
  const auto wait_for = [&](Device what) -> Status {
    std::unique_lock lock(mutex_);
    changed_.wait(
        lock, [&] { return flight.device_has >= what || !aborted_.is_ok() || !flight.host_status.is_ok(); });
    return copy_of(flight.host_status.is_ok() ? aborted_ : flight.host_status);
  };
  const auto tell = [&](Flight::Host what) {
    {
      const std::lock_guard lock(mutex_);
      flight.host_has = what;
      has_news_ = true;
    }
    changed_.notify_all();
  };

  if (flight.needs_id) {
    DABKE_RETURN_IF_ERROR(wait_for(Device::made_id));
    Batch id;
    id.kind = CollectiveKind::broadcast;
    id.dtype = DType::u8;
    id.order = flight.run->batch.order;
    id.process_set = flight.run->process_set.get();
    id.entries.push_back({.input = flight.id.data(),
                          .output = flight.id.data(),
                          .elements = static_cast<std::int64_t>(flight.id.size())});
    DABKE_RETURN_IF_ERROR(host.run(id));
  }
  if (flight.builder.needs_exchange()) DABKE_RETURN_IF_ERROR(host.run(flight.builder.exchange_batch()));
  tell(Flight::Host::exchanged);
  if (!flight.builder.needs_exchange() && flight.backend != nullptr) return {};
  DABKE_RETURN_IF_ERROR(wait_for(Device::built));
  if (flight.builder.needs_verdict()) {
    DABKE_RETURN_IF_ERROR(host.run(flight.builder.verdict_batch()));
    flight.refused = flight.builder.apply_verdict();
  }
  tell(Flight::Host::agreed);
  if (flight.backend != nullptr || flight.run->batch.entries.empty()) return {};
  DABKE_RETURN_IF_ERROR(wait_for(Device::staged));
  return host.run(flight.on_host);
}

// ---- the device's

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
    if (changed_.wait_for(lock, kIdleAfter, news)) {
      said_idle_ = false;
    } else if (flights_.empty() && !std::exchange(said_idle_, true)) {
      lock.unlock();
      runner_.idle();
    } else {
      changed_.wait(lock, news);
    }
  } else if (++looks <= kLooksAtOnce) {
    lock.unlock();
    std::this_thread::yield();
  } else {
    const int doublings = std::min(looks - kLooksAtOnce, 6);
    changed_.wait_for(lock, std::min(kShortestPause * (1 << doublings), kLongestPause), news);
  }
  return true;
}

void DeviceLane::begin(Flight& flight) {
  if (std::exchange(flight.has_begun, true)) return;
  Run& run = *flight.run;
  flight.begun_at = Clock::now();
  if (run.timeline) run.timeline->activity_end(run.timeline_ids);
  flight.report = {.kind = run.batch.kind, .tensors = run.tensors.size()};
  if (!running_.look()) running_.starts(run.batch.order, flight.begun_at);
  observer_.batch_starts(run);
}

/// Whether it has come a step further.
bool DeviceLane::advance(Flight& flight) {
  if (flight.run->is_release() || !flight.failed.is_ok()) return false;  // end_front() sees to it
  begin(flight);
  const Flight::Step before = flight.step;
  Status status = aborted();
  if (status.is_ok()) status = without_exceptions([&] { return step(flight); });
  if (status.is_ok()) return flight.step != before;
  if (flight.step == Flight::Step::launching || flight.step == Flight::Step::in_flight)
    status = flight.backend != nullptr ? runner_.fail(*flight.backend, flight.run->batch, std::move(status))
                                       : status;
  {
    const std::lock_guard lock(mutex_);
    flight.abandon_at = std::min(abandon_at_, Clock::now() + kAbandonAfter);
    if (flight.host_status.is_ok()) flight.host_status = copy_of(status);
  }
  changed_.notify_all();  // its part in the host's lane
  flight.failed = std::move(status);
  return true;
}

Status DeviceLane::step(Flight& flight) {
  Flight::Host host_has{};
  bool launched = false;
  {
    const std::lock_guard lock(mutex_);
    DABKE_RETURN_IF_ERROR(copy_of(flight.host_status));
    host_has = flight.host_has;
    launched = flight.launched;
    if (launched) DABKE_RETURN_IF_ERROR(copy_of(flight.launch_status));
  }
  switch (flight.step) {
    case Flight::Step::make_id: return make_id(flight);
    case Flight::Step::build: return host_has >= Flight::Host::exchanged ? build(flight) : Status();
    case Flight::Step::stage: return host_has >= Flight::Host::agreed ? stage(flight) : Status();
    case Flight::Step::launch: return host_has == Flight::Host::over ? launch(flight) : Status();
    case Flight::Step::launching: {
      DABKE_RETURN_IF_ERROR(flight.backend->poll());
      if (!launched) return {};
      flight.step = Flight::Step::in_flight;
      return record_behind(flight);
    }
    case Flight::Step::staging:
    case Flight::Step::in_flight:
      return flight.event != nullptr ? look(flight) : Status();  // or it has ended
  }
  return {};
}

Status DeviceLane::make_id(Flight& flight) {
  if (flight.needs_id) {
    flight.id.resize(flight.backend->unique_id_bytes());
    const ProcessSetInfo& set = *flight.run->process_set;
    if (set.rank == 0) DABKE_RETURN_IF_ERROR(flight.backend->make_unique_id(set, flight.id));
    {
      const std::lock_guard lock(mutex_);
      flight.device_has = Flight::Device::made_id;
    }
    changed_.notify_all();
  }
  flight.step = Flight::Step::build;
  return {};
}

Status DeviceLane::build(Flight& flight) {
  for (const RunTensor& tensor : flight.run->tensors) {
    if (tensor.operation != nullptr && tensor.operation->extras().ready)
      DABKE_RETURN_IF_ERROR(stream_->wait_for(tensor.operation->extras().ready));
  }
  flight.has_enqueued = true;
  DABKE_RETURN_IF_ERROR(flight.builder.build());
  {
    const std::lock_guard lock(mutex_);
    flight.device_has = Flight::Device::built;
  }
  changed_.notify_all();
  flight.step = flight.backend == nullptr ? Flight::Step::stage : Flight::Step::launch;
  return {};
}

/// The batch as the host runs it, on copies of its tensors.
Status DeviceLane::stage(Flight& flight) {
  Run& run = *flight.run;
  const std::size_t width = size_of(run.batch.dtype);
  flight.on_host = run.batch;
  flight.on_host.device_type = DeviceType::host;
  flight.on_host.device_index = 0;
  flight.on_host.stream = nullptr;
  const auto make = [&](std::size_t bytes) -> Result<void*> {
    DeviceBuffer memory = allocate_from(stream_->host_memory(), bytes);
    if (memory == nullptr)
      return Status(Code::out_of_memory, fmt::format("no host memory for a copy of {} bytes", bytes));
    return run.scratch.emplace_back(std::move(memory)).get();
  };
  for (BatchEntry& entry : flight.on_host.entries) {
    const std::size_t in_bytes = static_cast<std::size_t>(entry.elements) * width;
    const std::size_t out_bytes = static_cast<std::size_t>(output_elements(run.batch, entry)) * width;
    DABKE_ASSIGN_OR_RETURN(void* const output, make(std::max(in_bytes, out_bytes)));
    void* input = output;
    if (entry.input != entry.output) {
      DABKE_ASSIGN_OR_RETURN(input, make(in_bytes));
    }
    if (in_bytes != 0) DABKE_RETURN_IF_ERROR(stream_->copy_to_host(input, entry.input, in_bytes));
    if (out_bytes != 0) flight.outputs.push_back({entry.output, output, out_bytes});
    entry.input = input;
    entry.output = output;
  }
  flight.step = Flight::Step::staging;
  return record_behind(flight);
}

Status DeviceLane::record_behind(Flight& flight) {
  flight.has_enqueued = false;
  DABKE_ASSIGN_OR_RETURN(flight.event, stream_->record());
  return {};
}

Status DeviceLane::launch(Flight& flight) {
  Run& run = *flight.run;
  flight.has_enqueued = true;
  flight.report.size_bytes = input_bytes(run);
  if (flight.backend == nullptr || run.batch.entries.empty() || run.process_set->size() == 1) {
    flight.report.backend = flight.backend != nullptr ? flight.backend->name() : "staged";
    if (flight.backend != nullptr && !run.batch.entries.empty())
      DABKE_RETURN_IF_ERROR(run_alone(run.batch, *stream_));
    for (const auto& [device, host, bytes] : flight.outputs)
      DABKE_RETURN_IF_ERROR(stream_->copy_from_host(device, host, bytes));
    flight.step = Flight::Step::in_flight;
    return record_behind(flight);
  }
  if (flight.needs_id) flight.backend->take_unique_id(*run.process_set, flight.id);
  DABKE_ASSIGN_OR_RETURN(flight.backend, runner_.choose(run.batch));
  flight.report.backend = flight.backend->name();
  flight.activity = run.timeline ? flight.backend->activity_on_device(run.batch.kind) : nullptr;
  if (flight.activity != nullptr) run.timeline->activity_start(run.batch.timeline_ids, flight.activity);
  flight.step = Flight::Step::launching;
  const Status started = runner_.start_on(*flight.backend, run.batch, {&Flight::enqueued, &flight});
  if (!started.is_ok()) flight.step = Flight::Step::launch;
  return started;
}

Status DeviceLane::look(Flight& flight) {
  if (flight.backend != nullptr && flight.step == Flight::Step::in_flight)
    DABKE_RETURN_IF_ERROR(flight.backend->poll());
  const Result<bool> reached = flight.event->is_reached();
  if (!reached) {
    flight.event = nullptr;  // nothing runs any more
    return reached.status();
  }
  if (!*reached) return {};
  if (flight.step == Flight::Step::in_flight) {
    flight.event = nullptr;
    return {};
  }
  flight.event = nullptr;
  flight.step = Flight::Step::launch;
  {
    const std::lock_guard lock(mutex_);
    flight.device_has = Flight::Device::staged;
  }
  changed_.notify_all();
  return {};
}

/// Whether one that has failed may end: neither the host nor the device works on it.
bool DeviceLane::give_up(Flight& flight) {
  bool launched = false;
  {
    const std::lock_guard lock(mutex_);
    if (flight.host_has != Flight::Host::over) return false;
    launched = flight.launched;
  }
  if (flight.step == Flight::Step::launching) {
    if (!launched) {
      (void)without_exceptions([&] { return flight.backend->poll(); });
      return false;
    }
    flight.step = Flight::Step::in_flight;
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
    } else if (!give_up(*flight)) {
      if (Clock::now() < flight->abandon_at) return;
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
        "{} has not come to the end of {} '{}' and {} more within {} s of its failure; its memory is not "
        "used "
        "again",
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
  if (flight->activity != nullptr) flight->run->timeline->activity_end(flight->run->batch.timeline_ids);
  flight->report.seconds = std::chrono::duration<double>(Clock::now() - flight->begun_at).count();
  running_.ends();
  if (!flights_.empty() && flights_.front()->has_begun)
    running_.starts(flights_.front()->run->batch.order, flights_.front()->begun_at);
  std::vector<EndedCall> ended = end_run(*flight->run, flight->report, status, flight->refused, observer_);
  tell(ended, observer_);
}

}  // namespace dabke
