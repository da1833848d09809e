#include "ops/hierarchical/hierarchical_backend.h"

#include <algorithm>

#include "ops/hierarchical/host_leaders.h"

namespace dabke::ops {
namespace {

/// Returns the lowest rank that shares memory with this one.
Rank own_leader(const World& world, const Backend* inside) {
  for (Rank rank = 0; inside != nullptr && rank < world.rank; ++rank) {
    if (inside->can_serve({kWorldSet, {rank, world.rank}, 1})) return rank;
  }
  return world.rank;
}

}  // namespace

bool HierarchicalBackend::can_run(const CallSpec& call, const Extent&) const {
  return runs_on_host(call, kCollectivesOfHostBackends.without(CollectiveKind::alltoall));
}

bool HierarchicalBackend::can_serve(const ProcessSetInfo& set) const {
  // Called for every batch, so it does not make the layout.
  std::vector<bool> seen(leaders_.size());
  bool shares = false;
  std::size_t hosts = 0;
  for (const Rank rank : set.ranks) {
    const auto leader = static_cast<std::size_t>(leaders_[static_cast<std::size_t>(rank)]);
    shares = shares || seen[leader];
    hosts += seen[leader] ? 0 : 1;
    seen[leader] = true;
  }
  return hosts > 1 && shares;
}

Status HierarchicalBackend::prepare(const ProcessSetInfo& set, Device) {
  sets_.insert_or_assign(set.id, hosted(set, leaders_));
  return {};
}

void HierarchicalBackend::run(const Batch& batch, Completion done) {
  const RunPart run_part = [this](const Batch& part) { return parts_.run(part); };
  done(HierarchicalRun(batch, sets_.at(batch.process_set->id), run_part, scratch_, wide_).run());
}

void HierarchicalBackend::release(ProcessSetId set, Device) {
  if (sets_.erase(set) != 0) parts_.release(set);
}

Result<std::unique_ptr<Backend>> open_hierarchical_backend(const BackendContext& context,
                                                           std::vector<Backend*> parts) {
  const std::vector<std::string>& hosts = context.world.hosts;
  std::map<std::string, int> ranks_of;
  for (const std::string& host : hosts) ++ranks_of[host];
  const bool any_shares = std::ranges::any_of(ranks_of, [](const auto& row) { return row.second > 1; });
  if (ranks_of.size() < 2 || !any_shares) return std::unique_ptr<Backend>();
  DABKE_ASSIGN_OR_RETURN(auto leaders, gather_leaders(context, own_leader(context.world, parts.front())));
  return std::unique_ptr<Backend>(
      std::make_unique<HierarchicalBackend>(std::move(leaders), std::move(parts)));
}

}  // namespace dabke::ops
