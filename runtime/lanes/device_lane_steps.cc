// The steps of a run on a device, as device_lane.h numbers them.
#include <numeric>

#include <fmt/format.h>

#include "runtime/backend/packer.h"
#include "runtime/base/bytes.h"
#include "runtime/lanes/device_flight.h"

namespace dabke {
namespace {

std::int64_t sum_of(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::int64_t output_elements(const Batch& batch, const BatchEntry& entry) {
  if (!divides_rows(batch.kind)) return entry.elements;
  if (!reduces(batch.kind)) return sum_of(entry.receive_counts);
  return entry.receive_counts[static_cast<std::size_t>(batch.process_set->rank)];
}

}  // namespace

void DeviceLane::run_on_host(Flight& flight, BackendRunner& host) {
  Status status = without_exceptions([&] { return take_host_steps(flight, host); });
  // It has not run what other ranks run of it: what comes behind it would be out of step with them.
  if (!status.is_ok()) host.end(flight.run->process_set->id, status);
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
    DABKE_RETURN_IF_ERROR(compare_versions(flight, host));
    tell(Flight::Host::compared);
    DABKE_RETURN_IF_ERROR(wait_for(Device::made_id));
    Batch id;
    id.kind = CollectiveKind::broadcast;
    id.dtype = DType::u8;
    id.order = flight.run->batch.order;
    id.process_set = &flight.ranks_of_device();
    id.entries.push_back({.input = flight.id.data(),
                          .output = flight.id.data(),
                          .elements = static_cast<std::int64_t>(flight.id.size())});
    DABKE_RETURN_IF_ERROR(host.run(id));
  }
  if (flight.builder.needs_exchange()) DABKE_RETURN_IF_ERROR(host.run(flight.builder.exchange_batch()));
  tell(Flight::Host::exchanged);
  if (flight.grows_to != 0) {
    DABKE_RETURN_IF_ERROR(wait_for(Device::grown));
    return compare_memory(flight, host);
  }
  if (!flight.builder.needs_exchange() && !flight.host_runs()) return {};
  DABKE_RETURN_IF_ERROR(wait_for(Device::built));
  if (flight.builder.needs_verdict()) {
    DABKE_RETURN_IF_ERROR(host.run(flight.builder.verdict_batch()));
    flight.refused = flight.builder.apply_verdict();
  }
  tell(Flight::Host::agreed);
  if (!flight.host_runs() || flight.run->batch.entries.empty()) return {};
  DABKE_RETURN_IF_ERROR(wait_for(Device::staged));
  return flight.on_host.entries.empty() ? Status() : host.run(flight.on_host);
}

Status DeviceLane::compare_versions(const Flight& flight, BackendRunner& host) {
  const ProcessSetInfo& set = flight.ranks_of_device();
  DABKE_ASSIGN_OR_RETURN(const std::uint32_t own, flight.backend->id_exchange()->library_version());
  std::vector<std::uint32_t> all(to_size(set.size()));
  const std::vector<std::int64_t> counts(all.size(), 1);
  Batch versions;
  versions.kind = CollectiveKind::allgather;
  versions.dtype = DType::u32;
  versions.order = flight.run->batch.order;
  versions.process_set = &set;
  versions.entries.push_back({.input = &own, .output = all.data(), .elements = 1, .receive_counts = counts});
  DABKE_RETURN_IF_ERROR(host.run(versions));
  return flight.backend->id_exchange()->check_versions(set, all);
}

/// The least of what the ranks say.
Status DeviceLane::compare_memory(Flight& flight, BackendRunner& host) {
  Batch all;
  all.kind = CollectiveKind::allreduce;
  all.op = ReduceOp::min;
  all.dtype = DType::u8;
  all.order = flight.run->batch.order;
  all.process_set = flight.run->process_set.get();
  all.entries.push_back({.input = &flight.is_alike, .output = &flight.is_alike, .elements = 1});
  return host.run(all);
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
    case Flight::Step::make_id:
      return !flight.needs_id || host_has >= Flight::Host::compared ? make_id(flight) : Status();
    case Flight::Step::build: return host_has >= Flight::Host::exchanged ? build(flight) : Status();
    case Flight::Step::grow: return is_oldest(flight) ? grow(flight) : Status();
    case Flight::Step::slice: return slice(flight);
    case Flight::Step::start: return start(flight);
    case Flight::Step::stage: {
      if (host_has < Flight::Host::agreed) return {};
      return flight.is_direct ? stage_on_device(flight) : stage(flight);
    }
    case Flight::Step::launch: return host_has == Flight::Host::over ? launch(flight) : Status();
    case Flight::Step::slicing:
    case Flight::Step::launching: {
      DABKE_RETURN_IF_ERROR(flight.backend->poll());
      if (!launched) return {};
      if (flight.step == Flight::Step::launching) return record_end(flight);
      flight.step = Flight::Step::stage;
      return {};
    }
    case Flight::Step::staging:
    case Flight::Step::in_flight:
      return flight.event != nullptr ? look(flight) : Status();  // or it has ended
  }
  return {};
}

Status DeviceLane::make_id(Flight& flight) {
  if (flight.needs_id) {
    flight.id.resize(flight.backend->id_exchange()->id_bytes());
    const ProcessSetInfo& set = flight.ranks_of_device();
    if (set.rank == 0) DABKE_RETURN_IF_ERROR(flight.backend->id_exchange()->make_id(set, flight.id));
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
  flight.has_enqueued = true;
  DABKE_RETURN_IF_ERROR(wait_for_inputs(flight));
  DABKE_RETURN_IF_ERROR(flight.builder.build());
  if (flight.recorder) flight.recorder->begin_now();  // what the host does until then is drawn before it
  {
    const std::lock_guard lock(mutex_);
    flight.device_has = Flight::Device::built;
  }
  changed_.notify_all();
  flight.step = flight.hosted != nullptr    ? Flight::Step::slice
                : flight.backend == nullptr ? Flight::Step::stage
                : flight.grows_to != 0      ? Flight::Step::grow
                                            : Flight::Step::launch;
  return {};
}

Status DeviceLane::wait_for_inputs(Flight& flight) {
  BatchTrace trace = flight.run->batch.trace;
  if (trace.timeline != nullptr) {
    flight.recorder.emplace(*flight.stream, *trace.timeline);
    // Behind what the device still runs.
    const bool is_behind = !is_oldest(flight);
    if (is_behind) trace.begin(Record::What::queue);
    trace.stream = &*flight.recorder;
    if (is_behind) trace.end(Record::What::queue);
  }
  std::optional<ActivityScope> waiting;
  for (const RunTensor& tensor : flight.run->tensors) {
    if (tensor.operation == nullptr || tensor.operation->extras().ready.empty()) continue;
    if (!waiting) waiting.emplace(trace, Record::What::wait_for_data);
    // Once for all of an operation's tensors, also those of later runs: they are on this stream, too.
    const auto ready = std::move(tensor.operation->make_extras().ready);
    for (const auto& point : ready) DABKE_RETURN_IF_ERROR(flight.stream->wait_for(point));
  }
  return {};
}

/// What the host runs, on copies of the tensors.
Status DeviceLane::stage(Flight& flight) {
  Run& run = *flight.run;
  flight.on_host = flight.hosted != nullptr ? flight.sums->between() : run.batch;
  const std::size_t width = size_of(flight.on_host.dtype);
  flight.on_host.device_type = DeviceType::host;
  flight.on_host.device_index = 0;
  flight.on_host.stream = nullptr;
  const auto make = [&](std::size_t bytes) -> Result<void*> {
    DeviceBuffer memory = allocate_from(stream_->host_memory(), bytes);
    if (memory == nullptr) DABKE_RETURN_IF_ERROR(stream_->host_memory()->state());
    if (memory == nullptr)
      return Status(Code::out_of_memory, fmt::format("no host memory for a copy of {} bytes", bytes));
    return run.scratch.emplace_back(std::move(memory)).get();
  };
  for (BatchEntry& entry : flight.on_host.entries) {
    const std::size_t in_bytes = static_cast<std::size_t>(entry.elements) * width;
    const std::size_t out_bytes = static_cast<std::size_t>(output_elements(flight.on_host, entry)) * width;
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
  DABKE_ASSIGN_OR_RETURN(flight.event, flight.stream->record());
  return {};
}

/// All of it is on its way: whoever wants may let a stream wait for it.
Status DeviceLane::record_end(Flight& flight) {
  flight.step = Flight::Step::in_flight;
  DABKE_RETURN_IF_ERROR(record_behind(flight));
  for (std::size_t i = 0; i < flight.run->tensors.size(); ++i) {
    Operation* const operation = flight.run->tensors[i].operation;
    const bool runs = flight.refused.empty() || flight.refused[i].is_ok();
    if (operation != nullptr && runs) operation->note_enqueued(flight.event);
  }
  return {};
}

Status DeviceLane::launch(Flight& flight) {
  Run& run = *flight.run;
  const ProfilerRange range(*stream_, [&] {
    const std::size_t more = run.tensors.size() - 1;
    return fmt::format("{} '{}'{}", name_of(run.batch.kind), run.tensors.front().tensor->name,
                       more == 0 ? "" : fmt::format(" and {} more", more));
  });
  flight.has_enqueued = true;
  flight.report.size_bytes = input_bytes(run);
  if (flight.is_direct) {
    DABKE_RETURN_IF_ERROR(unstage_on_device(flight));
    flight.report.backend = "mpi";
    return record_end(flight);
  }
  for (const auto& [device, host, bytes] : flight.outputs)
    DABKE_RETURN_IF_ERROR(stream_->copy_from_host(device, host, bytes));
  if (flight.hosted != nullptr) {
    flight.report.backend = "hierarchical";
    DABKE_RETURN_IF_ERROR(narrow(flight));
    if (flight.after.entries.empty()) return record_end(flight);
    flight.next = &flight.after;
    flight.next_step = Flight::Step::launching;
    return start(flight);
  }
  // Also where nothing of the batch is left to run: it is made once, with the set's first batch.
  take_id(flight);
  if (flight.grows_to != 0) flight.backend->symmetric_memory()->use(*run.process_set, flight.is_alike != 0);
  if (flight.backend == nullptr || run.batch.entries.empty() || run.process_set->size() == 1) {
    flight.report.backend = flight.backend != nullptr ? flight.backend->name() : "staged";
    if (flight.backend != nullptr && !run.batch.entries.empty())
      DABKE_RETURN_IF_ERROR(run_alone(run.batch, *stream_));
    return record_end(flight);
  }
  flight.report.backend = flight.backend->name();
  flight.next = &run.batch;
  flight.next_step = Flight::Step::launching;
  return start(flight);
}

void DeviceLane::take_id(Flight& flight) {
  if (std::exchange(flight.needs_id, false))
    flight.backend->id_exchange()->take_id(flight.ranks_of_device(), flight.id);
}

/// All that came before has ended on this device, so no collective of ours runs beside it.
Status DeviceLane::grow(Flight& flight) {
  take_id(flight);
  const ProcessSetInfo& set = *flight.run->process_set;
  DABKE_RETURN_IF_ERROR(runner_.prepare(*flight.backend, flight.run->batch));
  flight.is_alike = flight.backend->symmetric_memory()->take(set, *stream_, flight.grows_to) ? 1 : 0;
  {
    const std::lock_guard lock(mutex_);
    flight.device_has = Flight::Device::grown;
  }
  changed_.notify_all();
  flight.step = Flight::Step::launch;
  return {};
}

/// Hands the next part of it to the device's backend, once that has the memory to pack it in.
Status DeviceLane::start(Flight& flight) {
  Batch& batch = *flight.next;
  DABKE_ASSIGN_OR_RETURN(Backend* const chosen, runner_.choose(batch));
  flight.backend = static_cast<DeviceBackend*>(chosen);
  flight.step = Flight::Step::start;
  if (!is_oldest(flight) && !flight.backend->has_room_for(batch)) return {};
  flight.part = &batch;
  if (flight.recorder) batch.trace.stream = &*flight.recorder;
  {
    const std::lock_guard lock(mutex_);
    flight.launched = false;
  }
  flight.step = flight.next_step;
  const Status started = without_exceptions([&] {
    return runner_.start_on(*flight.backend, batch, {&Flight::enqueued, &flight});
  });
  if (started.is_ok()) return {};
  flight.step = Flight::Step::start;  // `done` will not be called
  flight.part = nullptr;
  return started;
}

Status DeviceLane::look(Flight& flight) {
  if (flight.part != nullptr) DABKE_RETURN_IF_ERROR(flight.backend->poll());
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
  flight.part = nullptr;
  flight.step = Flight::Step::launch;
  {
    const std::lock_guard lock(mutex_);
    flight.device_has = Flight::Device::staged;
  }
  changed_.notify_all();
  return {};
}

}  // namespace dabke
