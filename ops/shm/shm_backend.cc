#include "ops/shm/shm_backend.h"

#include <algorithm>

#include <fmt/format.h>

#include "ops/shm/direct_run.h"
#include "ops/shm/shm_collectives.h"
#include "runtime/backend/activity.h"
#include "runtime/base/bytes.h"
#include "runtime/base/threads/exceptions.h"

namespace dabke::ops {
namespace {

/// Up to this size, one wait less saves more than it costs to sum all elements on every rank.
constexpr std::size_t kSmallBytes = std::size_t{32} << 10;

std::size_t input_bytes(const Batch& batch) {
  std::size_t elements = 0;
  for (const BatchEntry& entry : batch.entries) elements += to_size(entry.elements);
  return elements * size_of(batch.dtype);
}

}  // namespace

ShmBackend::ShmBackend(std::unique_ptr<ShmDomain> domain, shm::SharedHeap* heap, Log log, StorePolicy stores)
    : domain_(std::move(domain)),
      steps_(*domain_),
      stores_(*domain_, stores),
      remote_access_(*domain_),
      heaps_(*domain_, steps_, heap, std::move(log)),
      registered_(*domain_, steps_, heaps_),
      single_copy_(*domain_, steps_, remote_access_) {}

bool ShmBackend::can_run(const CallSpec& call, const Extent&) const {
  return runs_on_host(call, kCollectivesOfHostBackends);
}

bool ShmBackend::can_serve(const ProcessSetInfo& set) const {
  return std::ranges::all_of(
      set.ranks, [this](Rank rank) { return std::ranges::binary_search(domain_->ranks(), rank); });
}

Status ShmBackend::prepare(const ProcessSetInfo& set, Device) {
  std::vector<std::size_t> members;
  for (const Rank rank : set.ranks) {
    members.push_back(static_cast<std::size_t>(std::ranges::lower_bound(domain_->ranks(), rank) -
                                               domain_->ranks().begin()));
  }
  members_[set.id] = std::make_shared<const std::vector<std::size_t>>(std::move(members));
  return {};
}

void ShmBackend::release(ProcessSetId set, Device) {
  members_.erase(set);
  registered_.release(set);
  single_copy_.release(set);
}

Status ShmBackend::run_batch(const Batch& batch) {
  if (steps_.is_aborted()) return steps_.aborted();
  RunScope activity = show_activity<"SHM">(batch);
  const Members& members = members_.at(batch.process_set->id);
  steps_.begin(mark_of(batch), members, batch.deadline, batch.check);
  Status status = without_exceptions([&] { return run_steps(batch, *members, activity); });
  if (status.is_ok()) return status;
  // All sets use the same steps.
  const auto end_all = [&] {
    steps_.abort({status.code(), fmt::format("the ranks of this host are out of step since order {}: {}",
                                             batch.order, status.message())});
  };
  if (!attempt(end_all)) steps_.abort(out_of_memory());
  remote_access_.close(*members);
  return status;
}

/// Runs tensors that all ranks have in registered memory in place, and the rest through the stages.
Status ShmBackend::run_steps(const Batch& batch, const std::vector<std::size_t>& members,
                             RunScope& activity) {
  const std::size_t size_bytes = extent_of(batch).size_bytes;
  SharedEntries shared;
  if (size_bytes >= RegisteredTensors::kLeastBytes) {
    DABKE_ASSIGN_OR_RETURN(shared, registered_.agree(batch, size_bytes, members));
  }
  if (shared.entries.empty()) return run_private(batch, members, activity);
  stores_.begin(members, input_bytes(batch), true);
  {
    DABKE_ASSIGN_OR_RETURN(const RemoteAccessGuard::Visit visit, remote_access_.enter(members));
    DABKE_RETURN_IF_ERROR(DirectRun(batch, shared, steps_, stores_).work());
  }
  stores_.end(members);
  steps_.publish();
  DABKE_RETURN_IF_ERROR(steps_.wait_for_all());
  if (shared.entries.size() == batch.entries.size()) {
    activity.record_algorithm("registered");
    return {};
  }
  Batch rest = batch;
  for (auto entry = shared.entries.rbegin(); entry != shared.entries.rend(); ++entry)
    rest.entries.erase(rest.entries.begin() + static_cast<std::ptrdiff_t>(*entry));
  return run_private(rest, members, activity);
}

Status ShmBackend::run_private(const Batch& batch, const std::vector<std::size_t>& members,
                               RunScope& activity) {
  if (single_copy_.can_try(batch, extent_of(batch).size_bytes)) {
    DABKE_ASSIGN_OR_RETURN(const bool is_done, single_copy_.broadcast(batch, members));
    if (is_done) {
      activity.record_algorithm("single copy");
      return {};
    }
  }
  activity.record_algorithm("staged");
  return run_staged(batch, members);
}

Status ShmBackend::run_staged(const Batch& batch, const std::vector<std::size_t>& members) {
  const std::size_t small_bytes = kSmallBytes / members.size() * 2;
  stores_.begin(members, input_bytes(batch), false);
  DABKE_RETURN_IF_ERROR(ShmRun(batch, steps_, stores_, domain_->stage_bytes(), small_bytes, operands_).run());
  stores_.end(members);
  return {};
}

Result<std::unique_ptr<Backend>> open_shm_backend(const BackendContext& context) {
  DABKE_ASSIGN_OR_RETURN(auto domain, ShmDomain::open(context));
  if (!domain) return std::unique_ptr<Backend>();
  return std::unique_ptr<Backend>(
      std::make_unique<ShmBackend>(std::move(domain), context.heap, context.log, context.config.shm_stores));
}

}  // namespace dabke::ops
