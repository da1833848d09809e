// What of a device's batch its own backend runs, and what the host: by the hosts of its ranks.
#include "runtime/base/bytes.h"
#include "runtime/base/settings/fusion_settings.h"
#include "runtime/lanes/device_flight.h"

namespace dabke {
namespace {

/// What MPI is given is a copy, so larger batches would take twice their memory on the device.
constexpr std::size_t kMostDirectBytes = std::size_t{256} << 20;

}  // namespace

/// From what the ranks have agreed on, and where they are: so all of them come to the same.
void DeviceLane::choose(Flight& flight) {
  const Batch& batch = flight.run->batch;
  const ProcessSetInfo& set = *flight.run->process_set;
  CallSpec call = batch;
  if (set.size() > 1 && batch.device_route == DeviceRoute::host) return;
  if (set.size() > 1 && batch.device_route == DeviceRoute::direct) {
    flight.is_direct = is_whole(batch.kind) && batch.compression == Compression::none;
    return;
  }
  if (batch.device_route == DeviceRoute::hierarchical) {
    auto hosts = hosts_of(set);
    if (hosts->layout.hosts.size() > 1) {
      if (hosts->layout.most_size == 1 || !is_whole(batch.kind)) return;
      flight.hosted = std::move(hosts);
      call.compression = Compression::none;  // the host's, between hosts
    }
  }
  flight.backend = static_cast<DeviceBackend*>(runner_.find(call, {}, flight.ranks_of_device()));
  if (flight.backend == nullptr) flight.hosted = nullptr;
}

/// An operation whose tensors are in several runs has one stream for them all, the lane's: what it waits for is waited for once,
/// and whoever waits for its end waits behind its last run.
void DeviceLane::choose_stream(Flight& flight) {
  const auto sides = stream_->sides();
  if (sides.empty() || flight.host_runs() || flight.run->process_set->size() == 1) return;
  const auto& tensors = flight.run->tensors;
  for (std::size_t i = 0; i < tensors.size();) {
    const std::size_t first = i;
    while (i < tensors.size() && tensors[i].operation == tensors[first].operation) ++i;
    const Operation* const operation = tensors[first].operation;
    if (operation != nullptr && operation->inputs.size() != i - first) return;
  }
  flight.stream = sides[next_side_++ % sides.size()].get();
  flight.builder.work_on(*flight.stream);
  flight.run->batch.stream = flight.stream;
  flight.run->batch.ordered = stream_.get();
}

std::shared_ptr<const HostedSet> DeviceLane::hosts_of(const ProcessSetInfo& set) {
  auto& hosts = hosted_[set.id];
  if (hosts == nullptr) hosts = std::make_shared<const HostedSet>(hosted(set, leaders_));
  return hosts;
}

/// What the buffers in which the set's ranks pack alike have to grow to; 0: they are large enough.
std::size_t DeviceLane::growth(const Flight& flight) {
  if (flight.host_runs() || flight.run->process_set->size() == 1) return 0;
  elements_.clear();
  for (const RunTensor& one : flight.run->tensors) elements_.push_back(one.tensor->shape.elements());
  SymmetricMemory* const memory = flight.backend->symmetric_memory();
  const std::size_t needed = memory == nullptr ? 0 : memory->bytes_for(flight.run->batch, elements_);
  std::size_t& there = alike_[flight.run->process_set->id];
  if (needed <= there) return 0;
  return there = FusionBuffer::grown(there, needed);
}

/// Enqueues what comes before the host's part.
Status DeviceLane::slice(Flight& flight) {
  const Batch& batch = flight.run->batch;
  take_id(flight);
  // Of integers alone, as NCCL adds 16-bit floats.
  const bool is_wide = needs_wide_sums(batch) && !is_floating(batch.dtype);
  if (is_wide) DABKE_RETURN_IF_ERROR(widen(flight));
  flight.sums.emplace(is_wide ? flight.wide : batch, *flight.hosted);
  flight.slices.emplace(batch, *flight.sums);
  flight.before = flight.sums->before();
  flight.after = flight.slices->after();
  flight.step = Flight::Step::stage;
  if (flight.before.entries.empty()) return {};
  flight.next = &flight.before;
  flight.next_step = Flight::Step::slicing;
  return start(flight);
}

/// Copies of the tensors in whose dtype some ranks' sums are right, scaled.
Status DeviceLane::widen(Flight& flight) {
  const Batch& batch = flight.run->batch;
  flight.wide = part_of(batch, batch.kind, *batch.process_set);
  flight.wide.dtype = kernels::wide_dtype(batch.dtype);
  const auto bytes_of_wide = [&](const BatchEntry& entry) {
    return fusion_padded(to_size(entry.elements) * size_of(flight.wide.dtype));
  };
  std::size_t bytes = 0;
  for (const BatchEntry& entry : batch.entries) bytes += bytes_of_wide(entry);
  DABKE_ASSIGN_OR_RETURN(std::byte * next, wide_.reserve(bytes));
  std::vector<ElementCopy> pieces;
  for (const BatchEntry& entry : batch.entries) {
    if (entry.elements != 0) pieces.push_back({next, entry.input, to_size(entry.elements)});
    flight.wide.entries.push_back({next, next, entry.elements, {}, {}});
    next += bytes_of_wide(entry);
  }
  return stream_->copy(pieces, flight.wide.dtype, batch.dtype, batch.prescale);
}

/// This rank's slice of the sums, where they were made in another dtype.
Status DeviceLane::narrow(Flight& flight) {
  const Batch& batch = flight.run->batch;
  if (flight.wide.entries.empty()) return {};
  std::vector<ElementCopy> pieces;
  for (std::size_t e = 0; e < batch.entries.size(); ++e) {
    const std::size_t elements = to_size(flight.sums->own_count(e));
    if (elements != 0) pieces.push_back({flight.slices->own_output(e), flight.sums->own_output(e), elements});
  }
  return stream_->copy(pieces, batch.dtype, flight.wide.dtype, batch.result_scale());
}

/// One behind the other where a backend of the host may read and write them for as long as it likes, also after an abort:
/// it never sees the tensors' own memory.
Status DeviceLane::stage_on_device(Flight& flight) {
  const Batch& batch = flight.run->batch;
  const std::size_t bytes = input_bytes(*flight.run);  // the same on all ranks
  if (bytes > kMostDirectBytes) {
    flight.is_direct = false;
    return stage(flight);
  }
  flight.on_host = part_of(batch, batch.kind, *batch.process_set);
  flight.on_host.device_route = DeviceRoute::direct;
  flight.on_host.root = batch.root;
  flight.on_host.postscale = batch.postscale;
  flight.on_host.divisor = batch.divisor;
  DABKE_ASSIGN_OR_RETURN(std::byte* const memory, direct_->reserve(bytes));
  const std::size_t width = size_of(batch.dtype);
  const bool brings = !has_root(batch.kind) || batch.root == batch.process_set->rank;
  std::vector<ElementCopy> pieces;
  std::size_t elements = 0;
  for (const BatchEntry& entry : batch.entries) {
    const std::size_t count = to_size(entry.elements);
    if (count == 0) continue;
    std::byte* const place = memory + elements * width;
    pieces.push_back({place, entry.input, count});
    flight.outputs.push_back({entry.output, place, count * width});
    elements += count;
  }
  if (elements != 0)
    flight.on_host.entries.push_back({memory, memory, static_cast<std::int64_t>(elements), {}, {}});
  if (brings && !pieces.empty())
    DABKE_RETURN_IF_ERROR(stream_->copy(pieces, batch.dtype, batch.dtype, batch.prescale));
  flight.step = Flight::Step::staging;
  return record_behind(flight);
}

/// The results where they belong.
Status DeviceLane::unstage_on_device(const Flight& flight) {
  const DType dtype = flight.run->batch.dtype;
  std::vector<ElementCopy> pieces;
  for (const auto& [tensor, place, bytes] : flight.outputs)
    pieces.push_back({tensor, place, bytes / size_of(dtype)});
  return pieces.empty() ? Status() : stream_->copy(pieces, dtype, dtype, 1);
}

}  // namespace dabke
