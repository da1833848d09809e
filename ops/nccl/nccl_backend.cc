#include "ops/nccl/nccl_backend.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "build_parts.h"
#include "ops/nccl/nccl_dtype.h"
#include "runtime/backend/host_layout.h"
#include "runtime/base/bytes.h"
#include "runtime/base/settings/fusion_settings.h"
#include "runtime/base/threads/exceptions.h"
#include "runtime/call/process_set_list.h"
#include "runtime/modules/module_loader.h"

namespace dabke::ops {
namespace {

constexpr Collectives kCollectives = kCollectivesOfHostBackends.without(CollectiveKind::barrier);

/// True if a tensor of a batch of several is too large to be packed. The same tensors on all ranks.
bool is_large(std::int64_t elements, DType dtype) {
  return to_size(elements) * size_of(dtype) >= BatchSizes{}.alone;
}

/// Makes work that is enqueued on `stream` from now on wait for all work on `other`.
Status follow(DeviceStream& stream, DeviceStream& other) {
  if (&stream == &other) return {};
  DABKE_ASSIGN_OR_RETURN(const auto event, other.record());
  return stream.wait_for(event);
}

std::string version_text(std::uint32_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

NcclBackend::~NcclBackend() {
  // A batch that never got onto its stream has no end there.
  for (auto& [thread, lane] : lanes_) {
    if (lane.activity) lane.activity->drop();
  }
  // The remaining communicators are of lanes that got no release: the job has ended.
  if (aborted_.is_aborted()) return;
  lanes_.clear();
}

bool NcclBackend::can_run(const CallSpec& call, const Extent&) const {
  if (call.device_type != DeviceType::cuda || !kCollectives.contains(call.kind)) return false;
  if (!reduces(call.kind)) return true;
  const ReduceOp op = call.op == ReduceOp::average ? ReduceOp::sum : call.op;
  return nccl_dtype(call.dtype).has_value() && nccl_op(call.dtype, op).has_value();
}

Result<std::uint32_t> NcclBackend::library_version() {
  DABKE_ASSIGN_OR_RETURN(NcclSession* const nccl, find_());
  if (!has_logged_version_.exchange(true)) context_.log.info("{}", nccl->description());
  return static_cast<std::uint32_t>(nccl->version());
}

/// Returns an error if the ranks have different versions of NCCL. NCCL accepts no other version, even of the
/// same minor one. It would report the difference only when all ranks are making the communicator.
Status NcclBackend::check_versions(const ProcessSetInfo& set, std::span<const std::uint32_t> versions) const {
  std::map<std::uint32_t, std::vector<Rank>> by_version;
  for (std::size_t i = 0; i < versions.size(); ++i) by_version[versions[i]].push_back(set.ranks[i]);
  if (by_version.size() == 1) return {};
  std::vector<std::string> all;
  for (auto& [version, ranks] : by_version) {
    std::ranges::sort(ranks);
    all.push_back(fmt::format("{} on {} {}", version_text(version), ranks.size() == 1 ? "rank" : "ranks",
                              ranks_to_string(ranks)));
  }
  return {Code::mismatch,
          fmt::format("the ranks have different versions of NCCL: {}; install the same pip package "
                      "(nvidia-nccl-cu12, nvidia-nccl-cu13) everywhere, or set DABKE_NCCL_LIBRARY to files "
                      "of one version (DABKE_LOG_LEVEL=info shows the file of each rank)",
                      fmt::join(all, ", "))};
}

Status NcclBackend::make_id(const ProcessSetInfo&, std::span<std::byte> id) {
  DABKE_ASSIGN_OR_RETURN(NcclSession* const nccl, find_());
  return nccl->make_id(id);
}

void NcclBackend::take_id(const ProcessSetInfo& set, std::span<const std::byte> id) {
  const std::lock_guard lock(mutex_);
  std::ranges::copy(id, ids_[set.id].begin());
}

NcclBackend::OfLane& NcclBackend::of_this_lane() {
  const std::lock_guard lock(mutex_);
  return lanes_[std::this_thread::get_id()];
}

Status NcclBackend::prepare(const ProcessSetInfo& set, Device device) {
  if (set.size() == 1) return {};
  DABKE_ASSIGN_OR_RETURN(NcclSession* const nccl, find_());
  Id id;
  {
    const std::lock_guard lock(mutex_);
    id = ids_[set.id];
  }
  DABKE_ASSIGN_OR_RETURN(auto made, nccl->make_communicator(device, id, set.rank, set.size(),
                                                            deadline_after(context_.config.start_timeout),
                                                            [this] { return copy_of(aborted_.aborted()); }));
  OfLane& lane = of_this_lane();
  const std::shared_ptr<NcclCommunicator> communicator(std::move(made));
  {
    const std::lock_guard lock(mutex_);
    lane.sets[set.id].communicator = communicator;
  }
  // An abort before the communicator existed has not ended it.
  if (aborted_.is_aborted()) communicator->abort();
  return copy_of(aborted_.aborted());
}

std::size_t NcclBackend::bytes_for(const Batch& batch, std::span<const std::int64_t> elements) const {
  if (!is_whole(batch.kind)) return 0;
  const DType dtype = dtype_of_sums(batch);
  const bool converts = dtype != batch.dtype;
  std::size_t packed = 0;
  std::size_t bytes = 0;
  for (const std::int64_t count : elements) {
    if (!converts && elements.size() > 1 && is_large(count, dtype)) continue;
    ++packed;
    bytes += fusion_padded(to_size(count) * size_of(dtype));
  }
  return packed == 1 && !converts ? 0 : bytes;  // a lone tensor is not copied
}

bool NcclBackend::take(const ProcessSetInfo& set, DeviceStream& stream, std::size_t bytes) {
  OfSet& of = of_this_lane().sets.at(set.id);
  give_back(of);
  of.slots.clear();
  of.slots.resize(to_size(context_.config.num_nccl_streams));
  for (Slot& slot : of.slots) slot.packer = std::make_unique<Packer>(stream);
  of.bytes = bytes;
  for (Slot& slot : of.slots) {
    auto memory = of.communicator->take_memory(bytes);
    if (!memory) {
      context_.log.debug("{}: {} has no memory that is registered with NCCL: {}", stream.device().to_string(),
                         describe_set(set.id), memory.status().message());
      return false;
    }
    slot.memory = memory.take();
  }
  return true;
}

void NcclBackend::give_back(OfSet& of) {
  for (Slot& slot : of.slots) {
    if (slot.memory != nullptr) of.communicator->give_back(std::exchange(slot.memory, nullptr));
  }
}

void NcclBackend::use(const ProcessSetInfo& set, bool is_symmetric) {
  OfSet& of = of_this_lane().sets.at(set.id);
  if (!is_symmetric) give_back(of);
  for (Slot& slot : of.slots) {
    if (is_symmetric) {
      slot.packer->borrow(slot.memory, of.bytes);
    } else {
      slot.packer->make_room(of.bytes);
    }
  }
}

bool NcclBackend::has_room_for(const Batch& batch) {
  OfLane& lane = of_this_lane();
  Packer& packer = *slot_of(lane, batch).packer;
  if (!is_whole(batch.kind)) return packer.has_room_for(batch, dtype_of_sums(batch));
  lane.elements.clear();
  for (const BatchEntry& entry : batch.entries) lane.elements.push_back(entry.elements);
  return bytes_for(batch, lane.elements) <= packer.held_bytes();
}

NcclBackend::Slot& NcclBackend::slot_of(OfLane& lane, const Batch& batch) const {
  OfSet& of = lane.sets[batch.process_set->id];
  if (of.slots.empty()) of.slots.resize(to_size(context_.config.num_nccl_streams));
  Slot& slot = is_whole(batch.kind) ? of.slots[of.batches % of.slots.size()] : lane.slot;
  if (slot.packer == nullptr) slot.packer = std::make_unique<Packer>(*batch.stream);
  return slot;
}

void NcclBackend::report_held_bytes(OfLane& lane) const {
  std::size_t bytes = lane.slot.packer != nullptr ? lane.slot.packer->held_bytes() : 0;
  std::size_t registered = 0;
  for (const auto& [id, set] : lane.sets) {
    for (const Slot& slot : set.slots) {
      if (slot.packer != nullptr) bytes += slot.packer->held_bytes();
      if (slot.memory != nullptr) registered += set.bytes;
    }
  }
  if (std::exchange(lane.held_bytes, bytes) == bytes) return;
  context_.log.debug("{}: {} bytes are held for tensors that travel together{}",
                     lane.stream->device().to_string(), bytes,
                     registered == 0 ? "" : fmt::format(", {} of them registered with NCCL", registered));
}

void NcclBackend::run(const Batch& batch, Completion done) {
  OfLane& lane = of_this_lane();
  if (const Status status = start(lane, batch); !status.is_ok() || lane.batch == nullptr) return done(status);
  lane.done = done;
}

/// Returns the dtype that NCCL sums. Sums of integers that are divided are wide. NCCL adds float16 and
/// bfloat16 in its own way, including float32 that is compressed for the way between hosts.
DType NcclBackend::dtype_of_sums(const Batch& batch) const {
  if (needs_wide_sums(batch) && !is_floating(batch.dtype)) return kernels::wide_dtype(batch.dtype);
  const bool compresses = batch.kind == CollectiveKind::allreduce && batch.compression != Compression::none &&
                          batch.dtype == DType::f32 && spans_hosts(*batch.process_set, context_.world.hosts);
  return compresses ? wire_dtype(batch.compression) : batch.dtype;
}

/// Takes the large tensors out of the batch that will be packed, and copies them to their outputs, where NCCL
/// works on them. The same tensors on all ranks.
Result<std::vector<NcclCall>> NcclBackend::take_large(OfLane& lane) {
  Batch& batch = lane.packed;
  std::vector<NcclCall> calls;
  if (!is_whole(batch.kind) || batch.entries.size() == 1) return calls;
  const bool is_reduced = reduces(batch.kind);
  const bool brings = is_reduced || batch.process_set->rank == batch.root;
  const kernels::Scale before = is_reduced ? batch.prescale : 1;
  std::vector<ElementCopy> inputs;
  std::erase_if(batch.entries, [&](const BatchEntry& entry) {
    const std::size_t elements = to_size(entry.elements);
    if (!is_large(entry.elements, batch.dtype)) return false;
    if (brings && (entry.input != entry.output || !before.is_one()))
      inputs.push_back({entry.output, entry.input, elements});
    calls.push_back({.kind = batch.kind,
                     .dtype = batch.dtype,
                     .op = batch.op,
                     .root = batch.root,
                     .data = static_cast<std::byte*>(entry.output),
                     .elements = elements});
    if (is_reduced && !batch.result_scale().is_one())
      lane.results.push_back({entry.output, entry.output, elements});
    return true;
  });
  if (!inputs.empty()) DABKE_RETURN_IF_ERROR(lane.stream->copy(inputs, batch.dtype, batch.dtype, before));
  return calls;
}

/// Returns all NCCL calls for the batch. The copies of their inputs are enqueued.
Result<std::vector<NcclCall>> NcclBackend::prepare_calls(OfLane& lane, const Batch& batch) const {
  const DType dtype = dtype_of_sums(batch);
  lane.packed = batch;
  lane.results.clear();
  std::vector<NcclCall> calls;
  if (dtype == batch.dtype) {
    DABKE_ASSIGN_OR_RETURN(calls, take_large(lane));
    if (lane.packed.entries.empty()) return calls;
  }
  DABKE_ASSIGN_OR_RETURN(const PackedBatch packed, lane.packs->packer->pack(lane.packed, dtype));
  report_held_bytes(lane);
  if (is_empty(lane.packed)) return calls;
  calls.push_back({.kind = batch.kind,
                   .dtype = packed.dtype,
                   .op = batch.op,
                   .root = batch.root,
                   .send = packed.send,
                   .data = packed.data,
                   .elements = packed.elements,
                   .send_counts = packed.send_counts,
                   .receive_counts = packed.receive_counts});
  return calls;
}

/// Leaves the batch in the lane if NCCL has not enqueued all of it yet.
Status NcclBackend::start(OfLane& lane, const Batch& batch) {
  lane.stream = batch.stream;
  lane.ordered = batch.ordered != nullptr ? batch.ordered : batch.stream;
  lane.packs = &slot_of(lane, batch);
  if (is_whole(batch.kind)) ++lane.sets.at(batch.process_set->id).batches;
  lane.packs->packer->work_on(*lane.stream);
  if (lane.packs->unpacked != nullptr) DABKE_RETURN_IF_ERROR(lane.stream->wait_for(lane.packs->unpacked));
  DABKE_ASSIGN_OR_RETURN(const std::vector<NcclCall> calls, prepare_calls(lane, batch));
  if (calls.empty()) return finish(lane);
  DABKE_RETURN_IF_ERROR(follow(*lane.ordered, *lane.stream));
  NcclCommunicator& communicator = *lane.sets.at(batch.process_set->id).communicator;
  lane.activity.emplace(batch, activity_of<"NCCL">(batch.kind), name());
  const Status started = communicator.start(calls, *lane.ordered);
  const Result<bool> is_enqueued = started.is_ok() ? communicator.poll() : Result<bool>(started);
  if (!is_enqueued) return fail(lane, communicator, is_enqueued.status());
  if (*is_enqueued) return finish(lane);
  lane.batch = &batch;
  return {};
}

Status NcclBackend::finish(OfLane& lane) const {
  lane.activity.reset();
  const Batch& batch = lane.packed;
  DABKE_RETURN_IF_ERROR(follow(*lane.stream, *lane.ordered));
  if (!lane.results.empty())
    DABKE_RETURN_IF_ERROR(lane.stream->copy(lane.results, batch.dtype, batch.dtype, batch.result_scale()));
  if (!batch.entries.empty()) DABKE_RETURN_IF_ERROR(lane.packs->packer->unpack(batch));
  if (context_.config.num_nccl_streams == 1) return {};
  DABKE_ASSIGN_OR_RETURN(lane.packs->unpacked, lane.stream->record());
  return {};
}

Status NcclBackend::fail(OfLane& lane, NcclCommunicator& communicator, Status status) {
  communicator.abort();
  // Nothing may be enqueued on a stream on which NCCL has not enqueued all of its own work.
  if (lane.activity) lane.activity->drop();
  lane.activity.reset();
  if (aborted_.is_aborted()) return copy_of(aborted_.aborted());
  if (lane.failed.is_ok()) lane.failed = std::move(status);
  return copy_of(lane.failed);
}

Status NcclBackend::poll() {
  OfLane& lane = of_this_lane();
  if (lane.batch != nullptr) {
    NcclCommunicator& communicator = *lane.sets.at(lane.batch->process_set->id).communicator;
    const auto is_enqueued = communicator.poll();
    if (is_enqueued && !*is_enqueued) return {};
    lane.batch = nullptr;
    lane.done(is_enqueued ? finish(lane) : fail(lane, communicator, is_enqueued.status()));
    return {};
  }
  for (const auto& [set, of] : lane.sets) {
    if (of.communicator == nullptr) continue;
    const auto ready = of.communicator->poll();
    if (ready) continue;
    return fail(lane, *of.communicator,
                {ready.status().code(), fmt::format("{}: {}", describe_set(set), ready.status().message())});
  }
  return {};
}

void NcclBackend::release(ProcessSetId set, Device) {
  OfSet gone;
  OfLane& lane = of_this_lane();
  {
    const std::lock_guard lock(mutex_);
    ids_.erase(set);
    if (const auto found = lane.sets.find(set); found != lane.sets.end()) {
      gone = std::move(found->second);
      lane.sets.erase(found);
    }
  }
}

void NcclBackend::abort(const Status& cause) {
  aborted_.abort(cause);
  const std::lock_guard lock(mutex_);
  for (const auto& [thread, lane] : lanes_) {
    for (const auto& [set, of] : lane.sets) {
      if (of.communicator != nullptr) of.communicator->abort();
    }
  }
}

Result<std::unique_ptr<DeviceBackend>> open_nccl_backend(const BackendContext& context) {
  auto find = [&config = context.config]() -> Result<NcclSession*> {
    DABKE_ASSIGN_OR_RETURN(const modules::ModuleTable* const table, modules::load_module(config, "nccl"));
    return table->nccl;
  };
  return std::unique_ptr<DeviceBackend>(std::make_unique<NcclBackend>(context, std::move(find)));
}

OpenDevice cuda_devices(const Config& config, const Environment& environment) {
  return [config, environment](Device device) -> Result<std::shared_ptr<DeviceStream>> {
    DABKE_ASSIGN_OR_RETURN(const modules::ModuleTable* const table, modules::load_module(config, "nccl"));
    DABKE_RETURN_IF_ERROR(table->nccl->load_driver());
    const DeviceRoute route = route_of(config.gpu_operations);
    if (route == DeviceRoute::device || route == DeviceRoute::hierarchical)
      DABKE_RETURN_IF_ERROR(table->nccl->load_nccl(config.nccl_library, environment));
    const std::int64_t streams = config.num_nccl_streams;
    return table->nccl->open(device, streams > 1 ? to_size(streams) : 0);
  };
}

}  // namespace dabke::ops
