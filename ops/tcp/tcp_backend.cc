#include "ops/tcp/tcp_backend.h"

#include <fmt/format.h>

#include "ops/tcp/tcp_collectives.h"
#include "runtime/backend/first_cause.h"
#include "runtime/base/exceptions.h"

namespace dabke {
namespace {

const char* activity_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::allreduce: return "TCP_ALLREDUCE";
    case CollectiveKind::allgather: return "TCP_ALLGATHER";
    case CollectiveKind::broadcast: return "TCP_BCAST";
    default: return nullptr;
  }
}

/// What the order says of the batch's size; a barrier has none.
bool is_empty(const Batch& batch, const PackedBatch& packed) {
  return packed.elements == 0 && batch.kind != CollectiveKind::barrier;
}

}  // namespace

bool TcpBackend::can_run(const CallSpec& call, const Extent& extent) const {
  // Sums of some ranks' float16 and bfloat16 travel in float32.
  const bool is_wide = call.kind == CollectiveKind::allreduce && rounds_partial_results(call.dtype, call.op);
  const std::size_t most_bytes = is_wide ? kMostBytes / 2 : kMostBytes;
  if (!runs_on_host(call) || (extent.size_bytes > most_bytes && extent.ranks != 2)) return false;
  switch (call.kind) {
    case CollectiveKind::allreduce:
    case CollectiveKind::allgather:
    case CollectiveKind::broadcast:
    case CollectiveKind::barrier: return true;
    default: return false;
  }
}

Status TcpBackend::prepare(const ProcessSetInfo& set, Device) {
  if (interrupt_->is_aborted()) return interrupt_->cause();
  if (set.size() == 1 || sets_.contains(set.id)) return {};
  const std::string members = fmt::format("{}-{:x}", set.id, hash_of(set.ranks));
  const std::uint64_t incarnation = ++incarnations_[members];
  DABKE_ASSIGN_OR_RETURN(
      auto mesh, TcpMesh::open(context_, set, fmt::format("tcp/{}-{}", members, incarnation), *interrupt_));
  sets_[set.id].mesh = std::move(mesh);
  return {};
}

void TcpBackend::idle() {
  packer_.drop();
  scratch_.drop();
}

Status TcpBackend::run_batch(const Batch& batch) {
  if (interrupt_->is_aborted()) return interrupt_->cause();
  if (batch.process_set->size() == 1) {
    run_alone(batch);
    return {};
  }
  Set& set = sets_.at(batch.process_set->id);
  DABKE_RETURN_IF_ERROR(set.failed);
  const Status status = without_exceptions([&] { return run_packed(batch, set); });
  if (status) return status;
  set.mesh.reset();
  const ProcessSetInfo& info = *batch.process_set;
  const Status aborted = interrupt_->is_aborted() ? interrupt_->cause() : Status();
  set.failed =
      is_of_abort(status, aborted)
          ? aborted
          : Status(status.code(),
                   fmt::format("tcp {} (order {}), rank {} of {} in process set {}: {}", name_of(batch.kind),
                               batch.order, info.rank, info.size(), info.id, status.message()));
  return set.failed;
}

Status TcpBackend::run_packed(const Batch& batch, Set& set) {
  // Two ranks exchange their elements; of more, sums of some ranks' travel.
  const bool adds_all_at_once = batch.process_set->size() == 2;
  DABKE_ASSIGN_OR_RETURN(const PackedBatch packed,
                         packer_.pack(batch, needs_wide_sums(batch) && !adds_all_at_once));
  if (!is_empty(batch, packed)) {
    const char* const activity = activity_of(batch.kind);
    const ActivityScope scope(activity ? batch.timeline : nullptr, batch.timeline_ids, activity);
    set.mesh->begin(mark_of(batch), batch.deadline);
    DABKE_RETURN_IF_ERROR(tcp_run(*set.mesh, batch, packed, scratch_));
  }
  packer_.unpack(batch, adds_all_at_once ? kernels::Scale() : batch.result_scale());
  return {};
}

Result<std::unique_ptr<Backend>> open_tcp_backend(const BackendContext& context) {
  if (context.world.size == 1) return std::unique_ptr<Backend>();
  DABKE_ASSIGN_OR_RETURN(auto interrupt, TcpInterrupt::open(context.fork_guard));
  return std::unique_ptr<Backend>(std::make_unique<TcpBackend>(context, std::move(interrupt)));
}

}  // namespace dabke
