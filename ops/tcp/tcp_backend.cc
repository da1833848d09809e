#include "ops/tcp/tcp_backend.h"

#include <fmt/format.h>

#include "ops/tcp/tcp_collectives.h"
#include "runtime/backend/activity.h"
#include "runtime/base/threads/exceptions.h"

namespace dabke::ops {

bool TcpBackend::can_run(const CallSpec& call, const Extent& extent) const {
  // Partial sums of float16 and bfloat16 travel in float32.
  const bool is_wide = call.kind == CollectiveKind::allreduce && rounds_partial_results(call.dtype, call.op);
  const std::size_t most_bytes = is_wide ? kMostBytes / 2 : kMostBytes;
  return runs_on_host(call, {CollectiveKind::allreduce, CollectiveKind::allgather, CollectiveKind::broadcast,
                             CollectiveKind::barrier}) &&
         (extent.size_bytes <= most_bytes || extent.ranks == 2);
}

Status TcpBackend::prepare(const ProcessSetInfo& set, Device) {
  if (meshes_.contains(set.id)) return {};
  DABKE_RETURN_IF_ERROR(interrupt_->aborted());
  const std::string members = fmt::format("{}-{:x}", set.id, hash_of(set.ranks));
  const std::uint64_t incarnation = ++incarnations_[members];
  DABKE_ASSIGN_OR_RETURN(
      auto mesh, TcpMesh::open(context_, set, fmt::format("tcp/{}-{}", members, incarnation), *interrupt_));
  meshes_[set.id] = std::move(mesh);
  return {};
}

void TcpBackend::idle() {
  packer_.drop();
  scratch_.drop();
}

Status TcpBackend::run_batch(const Batch& batch) {
  const auto row = meshes_.find(batch.process_set->id);
  if (row == meshes_.end())
    return {Code::transport, "the set's links were closed when an earlier run failed"};
  Status status = without_exceptions([&] { return run_over(*row->second, batch); });
  if (!status.is_ok()) meshes_.erase(row);
  return status;
}

Status TcpBackend::run_over(TcpMesh& mesh, const Batch& batch) {
  // Two ranks exchange their own elements; more ranks exchange partial sums.
  const bool adds_all_at_once = batch.process_set->size() == 2;
  DABKE_ASSIGN_OR_RETURN(
      const PackedBatch packed,
      packer_.pack(batch, needs_wide_sums(batch) && !adds_all_at_once ? kernels::wide_dtype(batch.dtype)
                                                                      : batch.dtype));
  if (!is_empty(batch)) {
    const RunScope activity = show_activity<"TCP">(batch);
    mesh.begin(mark_of(batch), batch.deadline);
    DABKE_RETURN_IF_ERROR(tcp_run(mesh, batch, packed, scratch_));
  }
  return packer_.unpack(batch, adds_all_at_once ? kernels::Scale() : batch.result_scale());
}

Result<std::unique_ptr<Backend>> open_tcp_backend(const BackendContext& context) {
  if (context.world.size == 1) return std::unique_ptr<Backend>();
  DABKE_ASSIGN_OR_RETURN(auto interrupt, TcpInterrupt::open(context.fork_guard));
  return std::unique_ptr<Backend>(std::make_unique<TcpBackend>(context, std::move(interrupt)));
}

}  // namespace dabke::ops
