#include "ops/hierarchical/hierarchical_backend.h"

#include <algorithm>
#include <semaphore>

#include <fmt/format.h>

namespace dabke {
namespace {

struct Done {
  std::binary_semaphore over{0};
  Status status;
  static void call(void* context, const Status& status) {
    auto* done = static_cast<Done*>(context);
    done->status = status;
    done->over.release();
  }
};

/// The lowest rank of this host that shares memory with this one.
Rank own_leader(const World& world, const Collective* inside) {
  for (Rank rank = 0; inside != nullptr && rank < world.rank; ++rank) {
    if (inside->can_serve({kWorldSet, {rank, world.rank}, 1})) return rank;
  }
  return world.rank;
}

}  // namespace

bool HierarchicalBackend::can_run(const ResponseKind& kind) const {
  if (kind.device != DeviceType::host) return false;
  if (reduces(kind.kind) && (kind.op == ReduceOp::average || kind.op == ReduceOp::adasum)) return false;
  return kind.kind <= CollectiveKind::barrier && kind.kind != CollectiveKind::alltoall;
}

bool HierarchicalBackend::can_serve(const ProcessSetInfo& set) const {
  const HostLayout layout = layout_of(set, leaders_);
  return layout.hosts.size() > 1 && layout.most_size > 1;
}

Status HierarchicalBackend::prepare(const ProcessSetInfo& set) {
  auto made = std::make_unique<HostedSet>();
  made->layout = layout_of(set, leaders_);
  made->inside = ranks_inside(set, made->layout);
  made->between = ranks_between(set, made->layout);
  made->run_part = [this](const Batch& part) { return run_part(part); };
  sets_[set.id] = std::move(made);
  return {};
}

void HierarchicalBackend::run(const Batch& batch, Completion done) {
  done(HierarchicalRun(batch, *sets_.at(batch.process_set->id), scratch_).run());
}

Result<Collective*> HierarchicalBackend::backend_for(const Batch& part) const {
  const ProcessSetInfo& set = *part.process_set;
  const ResponseKind kind = kind_of(part);
  if (inside_ != nullptr && inside_->can_run(kind) && inside_->can_serve(set)) return inside_;
  const auto found = std::ranges::find_if(
      between_, [&](Collective* backend) { return backend->can_run(kind) && backend->can_serve(set); });
  if (found != between_.end()) return *found;
  return Status(Code::unsupported, fmt::format("no backend runs {} of {} between hosts", name_of(part.kind),
                                               name_of(part.dtype)));
}

Status HierarchicalBackend::run_part(const Batch& part) {
  DABKE_ASSIGN(Collective* const backend, backend_for(part));
  if (prepared_.insert({backend, part.process_set->id}).second)
    DABKE_CHECK(backend->prepare(*part.process_set));
  Done done;
  backend->run(part, {&Done::call, &done});
  done.over.acquire();
  return done.status;
}

void HierarchicalBackend::release(ProcessSetId set) {
  const auto found = sets_.find(set);
  if (found == sets_.end()) return;
  const ProcessSetId parts[] = {found->second->inside.id, found->second->between.id, set};
  std::erase_if(prepared_, [&](const auto& row) {
    if (std::ranges::find(parts, row.second) == std::end(parts)) return false;
    row.first->release(row.second);
    return true;
  });
  sets_.erase(found);
}

void HierarchicalBackend::abort(const Status& cause) {
  if (inside_ != nullptr) inside_->abort(cause);
  for (Collective* const backend : between_) backend->abort(cause);
}

Result<std::unique_ptr<Collective>> open_hierarchical_backend(const BackendContext& context,
                                                              Collective* inside,
                                                              std::vector<Collective*> between) {
  const std::vector<std::string>& hosts = context.world.hosts;
  std::map<std::string, int> ranks_of;
  for (const std::string& host : hosts) ++ranks_of[host];
  const bool any_shares = std::ranges::any_of(ranks_of, [](const auto& row) { return row.second > 1; });
  if (ranks_of.size() < 2 || !any_shares) return std::unique_ptr<Collective>();
  DABKE_ASSIGN(auto leaders, gather_leaders(context, own_leader(context.world, inside)));
  return std::unique_ptr<Collective>(
      std::make_unique<HierarchicalBackend>(std::move(leaders), inside, std::move(between)));
}

}  // namespace dabke
