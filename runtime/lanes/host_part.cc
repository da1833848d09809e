#include "runtime/lanes/host_part.h"

#include "runtime/base/bytes.h"
#include "runtime/base/threads/exceptions.h"

namespace dabke::lanes {

void HostPart::run(BackendRunner& host) {
  Status status = without_exceptions([&] { return take_steps(host); });
  // This rank has not run what other ranks run, so later batches of the set would be out of step with them.
  if (!status.is_ok()) host.end(run_.process_set->id, status);
  monitor_.change([&] {
    status_ = std::move(status);
    host_step_ = HostStep::over;
  });
}

Status HostPart::take_steps(BackendRunner& host) {
  if (plan_.needs_id) DABKE_RETURN_IF_ERROR(share_id(host));
  if (builder_.needs_exchange()) DABKE_RETURN_IF_ERROR(host.run(builder_.exchange_batch()));
  host_has(HostStep::exchanged);
  if (plan_.grows_to != 0) {
    DABKE_RETURN_IF_ERROR(wait_for(DeviceStep::grown));
    return agree_on_memory(host);
  }
  if (!builder_.needs_exchange() && !plan_.host_runs()) return {};
  DABKE_RETURN_IF_ERROR(wait_for(DeviceStep::built));
  if (builder_.needs_verdict()) {
    DABKE_RETURN_IF_ERROR(host.run(builder_.verdict_batch()));
    data_.refused = builder_.apply_verdict();
  }
  host_has(HostStep::agreed);
  if (!plan_.host_runs() || run_.batch.entries.empty()) return {};
  DABKE_RETURN_IF_ERROR(wait_for(DeviceStep::staged));
  return run_batch(host);
}

Status HostPart::share_id(BackendRunner& host) {
  DABKE_RETURN_IF_ERROR(compare_versions(host));
  host_has(HostStep::compared);
  DABKE_RETURN_IF_ERROR(wait_for(DeviceStep::made_id));
  Batch id;
  id.kind = CollectiveKind::broadcast;
  id.dtype = DType::u8;
  id.order = run_.batch.order;
  id.process_set = &ranks_of_device();
  id.entries.push_back({.input = data_.id.data(),
                        .output = data_.id.data(),
                        .elements = static_cast<std::int64_t>(data_.id.size())});
  return host.run(id);
}

Status HostPart::compare_versions(BackendRunner& host) const {
  const ProcessSetInfo& set = ranks_of_device();
  IdExchange& ids = *plan_.backend->id_exchange();
  DABKE_ASSIGN_OR_RETURN(const std::uint32_t own, ids.library_version());
  std::vector<std::uint32_t> all(to_size(set.size()));
  const std::vector<std::int64_t> counts(all.size(), 1);
  Batch versions;
  versions.kind = CollectiveKind::allgather;
  versions.dtype = DType::u32;
  versions.order = run_.batch.order;
  versions.process_set = &set;
  versions.entries.push_back({.input = &own, .output = all.data(), .elements = 1, .receive_counts = counts});
  DABKE_RETURN_IF_ERROR(host.run(versions));
  return ids.check_versions(set, all);
}

/// Takes the minimum over the ranks.
Status HostPart::agree_on_memory(BackendRunner& host) {
  Batch all;
  all.kind = CollectiveKind::allreduce;
  all.op = ReduceOp::min;
  all.dtype = DType::u8;
  all.order = run_.batch.order;
  all.process_set = run_.process_set.get();
  all.entries.push_back({.input = &data_.is_symmetric, .output = &data_.is_symmetric, .elements = 1});
  return host.run(all);
}

Status HostPart::run_batch(BackendRunner& host) {
  if (data_.batch == nullptr) return {};
  DABKE_ASSIGN_OR_RETURN(Backend* const backend, host.choose(*data_.batch));
  data_.ran_on = backend->name();  // also if no tensor has an element to move
  return data_.batch->entries.empty() ? Status() : host.run_on(*backend, *data_.batch);
}

Status HostPart::wait_for(DeviceStep step) {
  monitor_.wait_until([&] { return device_step_ >= step || !status_.is_ok(); });
  DABKE_RETURN_IF_ERROR(status());
  return monitor_.aborted();
}

}  // namespace dabke::lanes
