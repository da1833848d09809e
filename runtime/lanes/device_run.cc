#include "runtime/lanes/device_run.h"

#include <fmt/format.h>

#include "runtime/backend/packer.h"
#include "runtime/base/text/call_name.h"
#include "runtime/base/threads/exceptions.h"

namespace dabke::lanes {
namespace {

/// The most bytes that a backend of the host gets in device memory. They are copies, so larger batches would
/// take twice their memory on the device.
constexpr std::size_t kMostDirectBytes = std::size_t{256} << 20;

}  // namespace

DeviceRun::DeviceRun(DeviceLaneParts& lane, std::unique_ptr<Run> run, DevicePlan plan)
    : lane_(lane),
      run_(std::move(run)),
      plan_(std::move(plan)),
      builder_(*run_, plan_.stream != nullptr ? *plan_.stream : *lane.stream),
      host_(lane.monitor, *run_, plan_, builder_),
      needs_id_(plan_.needs_id),
      backend_(plan_.backend),
      launch_{lane.monitor, false, {}},
      is_direct_(plan_.is_direct) {}

void DeviceRun::begin(TimePoint now) {
  begun_at_ = now;
  run_->batch.trace.end(timeline::Record::What::queue);
  report_ = {.kind = run_->kind, .tensors = run_->tensors.size()};
}

Status DeviceRun::advance(bool is_oldest) {
  using Host = HostPart::HostStep;
  is_oldest_ = is_oldest;
  DABKE_RETURN_IF_ERROR(host_.status());
  const Host host = host_.host_step();
  switch (step_) {
    case Step::make_id: return !needs_id_ || host >= Host::compared ? make_id() : Status();
    case Step::build: return host >= Host::exchanged ? build() : Status();
    case Step::grow: return is_oldest_ ? grow() : Status();
    case Step::slice: return slice();
    case Step::start: return start();
    case Step::stage: return host >= Host::agreed ? stage() : Status();
    case Step::launch: return host == Host::over ? launch() : Status();
    case Step::slicing:
    case Step::launching: return poll_launch();
    case Step::staging:
    case Step::in_flight: return event_ != nullptr ? poll_event() : Status();  // or it has ended
  }
  return {};
}

Status DeviceRun::make_id() {
  if (needs_id_) {
    IdExchange& ids = *backend_->id_exchange();
    const ProcessSetInfo& set = plan_.ranks_of_device(*run_->process_set);
    host_.data().id.resize(ids.id_bytes());
    if (set.rank == 0) DABKE_RETURN_IF_ERROR(ids.make_id(set, host_.data().id));
    host_.device_has(HostPart::DeviceStep::made_id);
  }
  step_ = Step::build;
  return {};
}

Status DeviceRun::build() {
  has_enqueued_ = true;
  DABKE_RETURN_IF_ERROR(wait_for_inputs());
  DABKE_RETURN_IF_ERROR(builder_.build());
  if (recorder_) recorder_->begin_now();  // the host's work until then is drawn before it
  host_.device_has(HostPart::DeviceStep::built);
  step_ = plan_.hosted != nullptr    ? Step::slice
          : plan_.backend == nullptr ? Step::stage
          : plan_.grows_to != 0      ? Step::grow
                                     : Step::launch;
  return {};
}

Status DeviceRun::wait_for_inputs() {
  timeline::BatchTrace trace = run_->batch.trace;
  if (trace.timeline != nullptr) {
    recorder_.emplace(*plan_.stream, *trace.timeline);
    // This run is behind what the device still runs.
    if (!is_oldest_) trace.begin(timeline::Record::What::queue);
    trace.stream = &*recorder_;
    if (!is_oldest_) trace.end(timeline::Record::What::queue);
  }
  std::optional<timeline::ActivityScope> waiting;
  for (const RunTensor& tensor : run_->tensors) {
    if (tensor.operation == nullptr || tensor.operation->extras().ready.empty()) continue;
    if (!waiting) waiting.emplace(trace, timeline::Record::What::wait_for_data);
    // Once for all of an operation's tensors, also those of later runs, which are on this stream, too.
    const auto ready = std::move(tensor.operation->make_extras().ready);
    for (const auto& point : ready) DABKE_RETURN_IF_ERROR(plan_.stream->wait_for(point));
  }
  return {};
}

void DeviceRun::take_id() {
  if (!std::exchange(needs_id_, false)) return;
  backend_->id_exchange()->take_id(plan_.ranks_of_device(*run_->process_set), host_.data().id);
}

/// All earlier work has ended on this device, so no collective of ours runs at the same time.
Status DeviceRun::grow() {
  take_id();
  DABKE_RETURN_IF_ERROR(lane_.runner.prepare(*backend_, run_->batch));
  const bool is_taken = backend_->symmetric_memory()->take(*run_->process_set, *lane_.stream, plan_.grows_to);
  host_.data().is_symmetric = is_taken ? 1 : 0;
  host_.device_has(HostPart::DeviceStep::grown);
  step_ = Step::launch;
  return {};
}

/// Enqueues what comes before the host's part.
Status DeviceRun::slice() {
  take_id();
  sliced_.emplace(run_->batch, *plan_.hosted, lane_.wide);
  DABKE_RETURN_IF_ERROR(sliced_->begin(*lane_.stream));
  step_ = Step::stage;
  if (sliced_->before().entries.empty()) return {};
  return start(sliced_->before(), Step::slicing);
}

/// Copies the tensors for the host.
Status DeviceRun::stage() {
  is_direct_ = is_direct_ && input_bytes(*run_) <= kMostDirectBytes;  // the same on all ranks
  if (is_direct_) {
    DABKE_RETURN_IF_ERROR(staged_.copy_on_device(*run_, *lane_.stream, *lane_.direct));
  } else {
    DABKE_RETURN_IF_ERROR(
        staged_.copy_to_host(sliced_ ? sliced_->between() : run_->batch, *run_, *lane_.stream));
  }
  host_.data().batch = &staged_.batch();
  step_ = Step::staging;
  return record_behind();
}

Status DeviceRun::launch() {
  const Run& run = *run_;
  const ProfilerRange range(&*lane_.stream, [&] {
    const std::size_t more = run.tensors.size() - 1;
    return name_of_call(run.kind, run.tensors.front().tensor->name) +
           (more == 0 ? "" : fmt::format(" and {} more", more));
  });
  has_enqueued_ = true;
  report_.size_bytes = input_bytes(run);
  if (plan_.host_runs()) return launch_after_host();
  report_.backend = backend_->name();
  // Also if nothing of the batch is left to run: the communicator is made once, with the set's first batch.
  take_id();
  if (plan_.grows_to != 0)
    backend_->symmetric_memory()->use(*run.process_set, host_.data().is_symmetric != 0);
  if (run.batch.entries.empty()) return record_end();
  if (run.process_set->size() > 1) return start(run_->batch, Step::launching);
  DABKE_RETURN_IF_ERROR(run_alone(run.batch, *lane_.stream));
  return record_end();
}

Status DeviceRun::launch_after_host() {
  DABKE_RETURN_IF_ERROR(staged_.copy_back(*lane_.stream));
  if (!sliced_) {
    report_.backend = is_direct_ && !host_.data().ran_on.empty() ? host_.data().ran_on : "staged";
    return record_end();
  }
  report_.backend = name_of(DeviceRoute::hierarchical);
  DABKE_RETURN_IF_ERROR(sliced_->round_once(*lane_.stream));
  if (sliced_->after().entries.empty()) return record_end();
  return start(sliced_->after(), Step::launching);
}

Status DeviceRun::start(Batch& part, Step then) {
  next_ = &part;
  next_step_ = then;
  return start();
}

/// Hands the next part to the device's backend, once that has the memory to pack it in.
Status DeviceRun::start() {
  Batch& batch = *next_;
  DABKE_ASSIGN_OR_RETURN(Backend* const chosen, lane_.runner.choose(batch));
  backend_ = static_cast<DeviceBackend*>(chosen);
  step_ = Step::start;
  if (!is_oldest_ && !backend_->has_room_for(batch)) return {};
  part_ = &batch;
  if (recorder_) batch.trace.stream = &*recorder_;
  lane_.monitor.change([this] { launch_.is_over = false; });
  step_ = next_step_;
  const Status started = without_exceptions([&] {
    return lane_.runner.start_on(*backend_, batch, {&Launch::over, &launch_});
  });
  if (started.is_ok()) return {};
  step_ = Step::start;  // `done` will not be called
  part_ = nullptr;
  return started;
}

void DeviceRun::Launch::over(void* context, const Status& status) {
  Launch& launch = *static_cast<Launch*>(context);
  launch.monitor.change([&] {
    launch.is_over = true;
    if (!status.is_ok()) launch.status = copy_of(status);
  });
}

Status DeviceRun::poll_launch() {
  DABKE_RETURN_IF_ERROR(backend_->poll());
  bool is_over = false;
  DABKE_RETURN_IF_ERROR(lane_.monitor.read([&] {
    is_over = launch_.is_over;
    return is_over ? copy_of(launch_.status) : Status();
  }));
  if (!is_over) return {};
  if (step_ == Step::launching) return record_end();
  step_ = Step::stage;
  return {};
}

Status DeviceRun::record_behind() {
  has_enqueued_ = false;
  DABKE_ASSIGN_OR_RETURN(event_, plan_.stream->record());
  return {};
}

/// Called when all of the run is enqueued: any stream may now wait for its end.
Status DeviceRun::record_end() {
  step_ = Step::in_flight;
  DABKE_RETURN_IF_ERROR(record_behind());
  const Refusals& refused = host_.data().refused;
  for (std::size_t i = 0; i < run_->tensors.size(); ++i) {
    Operation* const operation = run_->tensors[i].operation;
    const bool runs = refused.empty() || refused[i].is_ok();
    if (operation != nullptr && runs) operation->note_enqueued(event_);
  }
  return {};
}

Status DeviceRun::poll_event() {
  if (part_ != nullptr) DABKE_RETURN_IF_ERROR(backend_->poll());
  const Result<bool> reached = event_->is_reached();
  if (reached && !*reached) return {};
  event_ = nullptr;  // nothing runs any more, also after an error
  if (!reached) return reached.status();
  if (step_ == Step::in_flight) return {};
  part_ = nullptr;
  step_ = Step::launch;
  host_.device_has(HostPart::DeviceStep::staged);
  return {};
}

void DeviceRun::fail(Status why, TimePoint abandon_at) {
  if (part_ != nullptr) {
    why = lane_.runner.fail(*backend_, *part_, std::move(why));
  } else {
    lane_.runner.end(run_->process_set->id, why);  // later batches have no id, or are out of step
  }
  abandon_at_ = abandon_at;
  host_.fail(why);
  failed_ = std::move(why);
}

bool DeviceRun::may_end() {
  if (!is_host_over()) return false;
  if (is_launching()) {
    if (!lane_.monitor.read([this] { return launch_.is_over; })) {
      (void)without_exceptions([&] { return backend_->poll(); });
      return false;
    }
    step_ = Step::in_flight;
  }
  // Also behind its collective, which may be on the lane's stream alone.
  if (has_enqueued_ && plan_.stream != lane_.stream.get()) {
    (void)without_exceptions([&]() -> Status {
      DABKE_ASSIGN_OR_RETURN(const auto collective, lane_.stream->record());
      return plan_.stream->wait_for(collective);
    });
  }
  // If no event can be had, the device is lost, and does nothing any more.
  if (has_enqueued_ && !without_exceptions([&] { return record_behind(); }).is_ok()) event_ = nullptr;
  if (event_ != nullptr) {
    const Result<bool> reached = event_->is_reached();
    if (!reached || *reached) event_ = nullptr;
  }
  return event_ == nullptr;
}

reports::BatchReport DeviceRun::finish() {
  if (!failed_.is_ok() && is_direct_) {
    (void)lane_.direct.release();  // the host's backend cannot be made to release it
    lane_.direct = std::make_unique<FusionBuffer>(*lane_.stream);
  }
  if (recorder_) recorder_->end();
  report_.seconds = std::chrono::duration<double>(Clock::now() - *begun_at_).count();
  return report_;
}

}  // namespace dabke::lanes
