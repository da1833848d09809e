#include "runtime/lanes/device_plan.h"

#include "runtime/backend/fusion_buffer.h"

namespace dabke::lanes {

DevicePlan DevicePlanner::plan(const Run& run) {
  DevicePlan plan;
  choose(run, plan);
  plan.stream = &stream_for(run, plan);
  const ProcessSetInfo& ranks = plan.ranks_of_device(*run.process_set);
  plan.needs_id = plan.backend != nullptr && plan.backend->id_exchange() != nullptr && ranks.size() > 1 &&
                  with_id_.emplace(plan.backend, ranks.id).second;
  plan.grows_to = growth(run, plan);
  return plan;
}

void DevicePlanner::release(ProcessSetId set) {
  std::erase_if(with_id_, [&](const auto& row) { return whole_of(row.second) == set; });
  hosted_.erase(set);
  symmetric_.erase(set);
}

void DevicePlanner::choose(const Run& run, DevicePlan& plan) {
  const Batch& batch = run.batch;
  const ProcessSetInfo& set = *run.process_set;
  CallSpec call = batch;
  if (set.size() > 1 && batch.device_route == DeviceRoute::host) return;
  if (set.size() > 1 && batch.device_route == DeviceRoute::direct) {
    plan.is_direct = is_whole(batch.kind) && batch.compression == Compression::none;
    return;
  }
  if (batch.device_route == DeviceRoute::hierarchical) {
    auto hosts = hosts_of(set);
    if (hosts->layout.hosts.size() > 1) {
      if (hosts->layout.most_size == 1 || !is_whole(batch.kind)) return;
      plan.hosted = std::move(hosts);
      call.compression = Compression::none;  // the host compresses, between hosts
    }
  }
  plan.backend = static_cast<DeviceBackend*>(runner_.find(call, {}, plan.ranks_of_device(set)));
  if (plan.backend == nullptr) plan.hosted = nullptr;
}

/// Chooses the stream of a run. If an operation has tensors in several runs, all of them use the lane's
/// stream. Its inputs are then awaited once, and a wait for its end is behind its last run.
DeviceStream& DevicePlanner::stream_for(const Run& run, const DevicePlan& plan) {
  const auto sides = stream_.sides();
  if (sides.empty() || plan.host_runs() || run.process_set->size() == 1) return stream_;
  const auto& tensors = run.tensors;
  for (std::size_t i = 0; i < tensors.size();) {
    const std::size_t first = i;
    while (i < tensors.size() && tensors[i].operation == tensors[first].operation) ++i;
    const Operation* const operation = tensors[first].operation;
    if (operation != nullptr && operation->inputs.size() != i - first) return stream_;
  }
  return *sides[next_side_++ % sides.size()];
}

std::shared_ptr<const HostedSet> DevicePlanner::hosts_of(const ProcessSetInfo& set) {
  auto& hosts = hosted_[set.id];
  if (hosts == nullptr) hosts = std::make_shared<const HostedSet>(hosted(set, leaders_));
  return hosts;
}

std::size_t DevicePlanner::growth(const Run& run, const DevicePlan& plan) {
  if (plan.host_runs() || run.process_set->size() == 1) return 0;
  SymmetricMemory* const memory = plan.backend->symmetric_memory();
  if (memory == nullptr) return 0;
  elements_.clear();
  for (const RunTensor& one : run.tensors) elements_.push_back(one.tensor->shape.elements());
  const std::size_t needed = memory->bytes_for(run.batch, elements_);
  std::size_t& there = symmetric_[run.process_set->id];
  if (needed <= there) return 0;
  return there = FusionBuffer::grown(there, needed);
}

}  // namespace dabke::lanes
