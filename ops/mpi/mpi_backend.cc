#include "ops/mpi/mpi_backend.h"

#include <fmt/format.h>

#include "runtime/base/exceptions.h"

namespace dabke {
namespace {

const char* activity_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::allreduce: return "MPI_ALLREDUCE";
    case CollectiveKind::allgather: return "MPI_ALLGATHER";
    case CollectiveKind::broadcast: return "MPI_BCAST";
    case CollectiveKind::alltoall: return "MPI_ALLTOALL";
    case CollectiveKind::reducescatter: return "MPI_REDUCESCATTER";
    default: return nullptr;
  }
}

/// "mpi allreduce of 3 tensors (order 17), rank 1 of 4 in process set 0"
std::string describe(const Batch& batch) {
  const ProcessSetInfo& set = *batch.process_set;
  return fmt::format("mpi {} of {} tensor{} (order {}), rank {} of {} in process set {}", name_of(batch.kind),
                     batch.entries.size(), batch.entries.size() == 1 ? "" : "s", batch.order, set.rank,
                     set.size(), set.id);
}

/// The tensors of an allreduce as one row.
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

MpiBackend::MpiBackend(const BackendContext& context, MpiSession& session, std::size_t round_bytes)
    : context_(context),
      session_(session),
      round_bytes_(round_bytes),
      staging_(std::make_unique<MpiStaging>()) {}

MpiBackend::~MpiBackend() {
  // After a failure the other ranks may not free theirs, and freeing is for all.
  if (aborted().is_ok()) return;
  for (auto& [id, set] : sets_) {
    if (set.comm) set.comm->forsake();
  }
}

bool MpiBackend::can_run(const CallSpec& call, const Extent&) const { return runs_on_host(call); }

Status MpiBackend::aborted() const {
  const std::lock_guard lock(cause_mutex_);
  return cause_;
}

void MpiBackend::abort(const Status& cause) {
  const std::lock_guard lock(cause_mutex_);
  if (cause_.is_ok()) cause_ = Status(cause);
}

Status MpiBackend::prepare(const ProcessSetInfo& set, Device) {
  constexpr int kTags = 32767;                       // the fewest that the standard promises
  const int tag = (set.id % kTags + kTags) % kTags;  // the parts of a set of several hosts have negative ids
  const std::lock_guard lock(mutex_);
  DABKE_RETURN_IF_ERROR(aborted());
  const auto [row, is_new] = sets_.try_emplace(set.id);
  if (!is_new || set.size() == 1) return {};
  auto made = session_.make_communicator(set.ranks, tag, [this] { return aborted(); });
  if (!made) {
    sets_.erase(row);
    return made.status();
  }
  row->second.comm = made.take();
  return {};
}

void MpiBackend::release(ProcessSetId set, Device) {
  const std::lock_guard lock(mutex_);
  sets_.erase(set);
}

void MpiBackend::idle() {
  const std::lock_guard lock(mutex_);
  packer_.drop();
  staging_->memory.drop();
}

Status MpiBackend::run_batch(const Batch& batch) {
  const std::lock_guard lock(mutex_);
  DABKE_RETURN_IF_ERROR(aborted());
  if (batch.process_set->size() == 1) {
    run_alone(batch);
    return {};
  }
  const auto row = sets_.find(batch.process_set->id);
  if (row == sets_.end() || !row->second.comm) {
    return {Code::internal, fmt::format("{}: the process set was not prepared", describe(batch))};
  }
  Set& set = row->second;
  DABKE_RETURN_IF_ERROR(set.failed);
  const Status status = without_exceptions([&] { return run_on(batch, *set.comm); });
  if (status) return status;
  // MPI may still read and write what is staged, for ever.
  set.comm->forsake();
  (void)staging_.release();
  staging_ = std::make_unique<MpiStaging>();
  const Status cause = aborted();
  set.failed =
      cause.is_ok() ? Status(status.code(), fmt::format("{}: {}", describe(batch), status.message())) : cause;
  return set.failed;
}

Status MpiBackend::run_on(const Batch& batch, MpiCommunicator& comm) {
  const std::function<Status()> interrupted = [&]() -> Status {
    DABKE_RETURN_IF_ERROR(aborted());
    if (batch.deadline == kNever || Clock::now() < batch.deadline) return {};
    return {Code::timeout, "not done within its limit; a rank is late, stopped or gone"};
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
  if (batch.kind == CollectiveKind::allreduce) {
    const ActivityScope scope(batch.timeline, batch.timeline_ids, activity_of(batch.kind));
    return allreduce(batch, run);
  }
  DABKE_ASSIGN_OR_RETURN(const PackedBatch packed, packer_.pack(batch));
  DABKE_RETURN_IF_ERROR(run_packed(batch, packed, run));
  packer_.unpack(batch, {});  // a reducescatter has been scaled
  return {};
}

Status MpiBackend::run_packed(const Batch& batch, const PackedBatch& packed, const MpiRun& run) {
  // What is empty on all ranks needs no run. A rank's part of an alltoall may be empty alone.
  const bool is_empty = packed.elements == 0 && packed.send_elements == 0;
  if (is_empty && batch.kind != CollectiveKind::barrier && batch.kind != CollectiveKind::alltoall) return {};
  const char* const activity = activity_of(batch.kind);
  const ActivityScope scope(activity ? batch.timeline : nullptr, batch.timeline_ids, activity);
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
  DABKE_RETURN_IF_ERROR(mpi_can_serve(context.mpi, "DABKE_CPU_OPERATIONS=mpi"));
  return std::unique_ptr<Backend>(std::make_unique<MpiBackend>(context, *context.mpi));
}

}  // namespace dabke
