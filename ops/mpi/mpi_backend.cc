#include "ops/mpi/mpi_backend.h"

#include <fmt/format.h>

#include "runtime/backend/activity.h"
#include "runtime/base/threads/exceptions.h"

namespace dabke::ops {
namespace {

/// Reduces the tensors of an allreduce as one row.
Status allreduce(const Batch& batch, const MpiRun& run) {
  InPieces in(size_of(batch.dtype));
  OutPieces out(size_of(batch.dtype));
  for (const BatchEntry& entry : batch.entries) {
    in.add(static_cast<const std::byte*>(entry.input), static_cast<std::size_t>(entry.elements));
    out.add(static_cast<std::byte*>(entry.output), static_cast<std::size_t>(entry.elements));
  }
  if (in.elements() == 0) return {};
  return mpi_allreduce(run, in, batch.prescale, out, batch.result_scale());
}

}  // namespace

MpiBackend::MpiBackend(const BackendContext& context, modules::MpiSession& session, std::size_t round_bytes)
    : context_(context),
      session_(session),
      round_bytes_(round_bytes),
      staging_(std::make_unique<MpiStaging>()) {}

MpiBackend::~MpiBackend() {
  // Freeing a communicator is collective, and after a failure the other ranks may not free theirs.
  if (!aborted_.is_aborted()) return;
  for (auto& [id, comm] : comms_) comm->forsake();
}

bool MpiBackend::can_run(const CallSpec& call, const Extent&) const {
  if (call.device_type != DeviceType::host) {
    // The device's lane passes a batch in this form if MPI takes the device's memory: one piece, scaled.
    return call.device_route == DeviceRoute::direct && is_whole(call.kind);
  }
  return runs_on_host(call, kCollectivesOfHostBackends);
}

Status MpiBackend::prepare(const ProcessSetInfo& set, Device) {
  constexpr int kTags = 32767;                       // tags that the standard guarantees
  const int tag = (set.id % kTags + kTags) % kTags;  // parts of sets of several hosts have negative ids
  const std::lock_guard lock(mutex_);
  if (comms_.contains(set.id)) return {};
  DABKE_RETURN_IF_ERROR(aborted_.aborted());
  DABKE_ASSIGN_OR_RETURN(comms_[set.id],
                         session_.make_communicator(set.ranks, tag, [this] { return aborted_.aborted(); }));
  return {};
}

void MpiBackend::release(ProcessSetId set, Device) {
  const std::lock_guard lock(mutex_);
  const auto row = comms_.find(set);
  if (row == comms_.end()) return;
  if (aborted_.is_aborted()) row->second->forsake();  // the other ranks may not free theirs
  comms_.erase(row);
}

void MpiBackend::idle() {
  const std::lock_guard lock(mutex_);
  packer_.drop();
  staging_->memory.drop();
}

Status MpiBackend::run_batch(const Batch& batch) {
  const std::lock_guard lock(mutex_);
  const auto row = comms_.find(batch.process_set->id);
  if (row == comms_.end())
    return {Code::transport, "the set's communicator was abandoned when an earlier run failed"};
  modules::MpiCommunicator& comm = *row->second;
  Status status = without_exceptions([&] { return run_on(batch, comm); });
  if (status.is_ok()) return status;
  // MPI has not finished, and may read and write the staged memory for ever.
  comm.forsake();
  comms_.erase(row);
  (void)staging_.release();
  staging_ = std::make_unique<MpiStaging>();
  return status;
}

Status MpiBackend::run_on(const Batch& batch, modules::MpiCommunicator& comm) {
  const std::function<Status()> interrupted = [&]() -> Status {
    DABKE_RETURN_IF_ERROR(aborted_.aborted());
    if (batch.deadline == kNever || Clock::now() < batch.deadline) return {};
    return {Code::timeout, "not finished within its limit; a rank is late, stopped or gone"};
  };
  const ProcessSetInfo& set = *batch.process_set;
  const BatchMark mark = mark_of(batch);
  const MpiRun run{comm,
                   mark,
                   set.ranks,
                   static_cast<std::size_t>(set.rank),
                   static_cast<std::size_t>(set.size()),
                   batch.dtype,
                   batch.op,
                   *staging_,
                   round_bytes_,
                   interrupted};
  if (batch.device_type != DeviceType::host) {
    const RunScope activity = show_activity<"MPI">(batch);
    return batch.stream->with_current([&] { return run_on_device(batch, run); });
  }
  if (batch.kind == CollectiveKind::allreduce) {
    const RunScope activity = show_activity<"MPI">(batch);
    return allreduce(batch, run);
  }
  DABKE_ASSIGN_OR_RETURN(const PackedBatch packed, packer_.pack(batch));
  DABKE_RETURN_IF_ERROR(run_packed(batch, packed, run));
  return packer_.unpack(batch, {});  // a reducescatter is scaled already
}

Status MpiBackend::run_on_device(const Batch& batch, const MpiRun& run) {
  if (batch.entries.size() != 1 || batch.entries[0].input != batch.entries[0].output)
    return {Code::internal, "MPI is given one piece of a device's memory"};
  auto* const data = static_cast<std::byte*>(batch.entries[0].output);
  const auto elements = static_cast<std::size_t>(batch.entries[0].elements);
  if (batch.kind == CollectiveKind::allreduce)
    return mpi_allreduce_on_device(run, data, elements, batch.result_scale());
  return mpi_broadcast_on_device(run, data, elements, batch.root);
}

Status MpiBackend::run_packed(const Batch& batch, const PackedBatch& packed, const MpiRun& run) {
  if (is_empty(batch)) return {};
  const RunScope activity = show_activity<"MPI">(batch);
  switch (batch.kind) {
    case CollectiveKind::allgather: return mpi_allgather(run, packed.data, packed.receive_counts);
    case CollectiveKind::broadcast: return mpi_broadcast(run, packed.data, packed.elements, batch.root);
    case CollectiveKind::alltoall:
      return mpi_alltoall(run, packed.send, packed.send_counts, packed.data, packed.receive_counts);
    case CollectiveKind::reducescatter:
      return mpi_reducescatter(run, packed.send, packed.send_counts, packed.data, batch.result_scale());
    case CollectiveKind::barrier: return mpi_barrier(run);
    default: return {Code::unsupported, fmt::format("mpi cannot run {}", name_of(batch.kind))};
  }
}

Result<std::unique_ptr<Backend>> open_mpi_backend(const BackendContext& context) {
  DABKE_RETURN_IF_ERROR(modules::mpi_can_serve(context.mpi, "DABKE_CPU_OPERATIONS=mpi"));
  return std::unique_ptr<Backend>(std::make_unique<MpiBackend>(context, *context.mpi));
}

bool mpi_takes_device_memory(const BackendContext& context) {
  if (context.mpi == nullptr) return false;  // a job of one rank
  const Answer given = context.config.mpi_cuda_aware;
  const bool is_asked = given == Answer::automatic;
  const bool takes = is_asked ? context.mpi->takes_cuda_memory() : given == Answer::yes;
  context.log.info("{} {} given pointers to the memory of CUDA devices ({})", context.mpi->library(),
                   takes ? "is" : "is not",
                   is_asked ? "by its own report"
                   : takes  ? "DABKE_MPI_CUDA_AWARE=yes"
                            : "DABKE_MPI_CUDA_AWARE=no");
  return takes;
}

}  // namespace dabke::ops
