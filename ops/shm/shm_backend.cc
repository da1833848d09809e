#include "ops/shm/shm_backend.h"

#include <algorithm>

#include <fmt/format.h>

#include "ops/pack.h"
#include "ops/shm/shm_collectives.h"

namespace dabke {
namespace {

/// Up to here one wait saves more than summing everything on every rank costs.
constexpr std::size_t kSmallBytes = std::size_t{32} << 10;

const char* activity_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::allreduce: return "SHM_ALLREDUCE";
    case CollectiveKind::allgather: return "SHM_ALLGATHER";
    case CollectiveKind::broadcast: return "SHM_BCAST";
    case CollectiveKind::alltoall: return "SHM_ALLTOALL";
    case CollectiveKind::reducescatter: return "SHM_REDUCESCATTER";
    default: return nullptr;
  }
}

}  // namespace

ShmBackend::ShmBackend(std::unique_ptr<ShmDomain> domain) : domain_(std::move(domain)), steps_(*domain_) {}

bool ShmBackend::can_run(const ResponseKind& kind) const {
  if (kind.device != DeviceType::host) return false;
  if (reduces(kind.kind) && (kind.op == ReduceOp::average || kind.op == ReduceOp::adasum)) return false;
  return kind.kind <= CollectiveKind::barrier;
}

bool ShmBackend::can_serve(const ProcessSetInfo& set) const {
  return std::ranges::all_of(
      set.ranks, [this](Rank rank) { return std::ranges::binary_search(domain_->ranks(), rank); });
}

Status ShmBackend::prepare(const ProcessSetInfo& set) {
  std::vector<std::size_t> members;
  for (const Rank rank : set.ranks) {
    members.push_back(static_cast<std::size_t>(std::ranges::lower_bound(domain_->ranks(), rank) -
                                               domain_->ranks().begin()));
  }
  members_[set.id] = std::make_shared<const std::vector<std::size_t>>(std::move(members));
  return {};
}

void ShmBackend::release(ProcessSetId set) { members_.erase(set); }

Status ShmBackend::run_batch(const Batch& batch) {
  const ProcessSetInfo& set = *batch.process_set;
  if (set.size() == 1) {
    run_alone(batch);
    return {};
  }
  DABKE_CHECK(steps_.aborted());
  const char* const activity = activity_of(batch.kind);
  const ActivityScope scope(activity ? batch.timeline : nullptr, batch.timeline_ids, activity);
  steps_.begin(batch.order, members_.at(set.id), batch.deadline);
  ShmRun run(batch, steps_, domain_->stage_bytes(), kSmallBytes / static_cast<std::size_t>(set.size()) * 2);
  const Status status = run.run();
  if (status || !steps_.aborted().is_ok()) return status;
  const Status cause(status.code(), fmt::format("shm {} (order {}), rank {} of {} in process set {}: {}",
                                                name_of(batch.kind), batch.order, set.rank, set.size(),
                                                set.id, status.message()));
  steps_.abort(cause);  // the ranks are out of step
  return cause;
}

Result<std::unique_ptr<Collective>> open_shm_backend(const BackendContext& context) {
  DABKE_ASSIGN(auto domain, ShmDomain::open(context));
  if (!domain) return std::unique_ptr<Collective>();
  return std::unique_ptr<Collective>(std::make_unique<ShmBackend>(std::move(domain)));
}

}  // namespace dabke
