// Collectives between ranks that share memory: host tensors of process sets within one domain.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>

#include "ops/shm/registered_tensors.h"
#include "ops/shm/remote_access_guard.h"
#include "ops/shm/shm_steps.h"
#include "ops/shm/shm_stores.h"
#include "ops/shm/single_copy.h"
#include "runtime/backend/activity.h"
#include "runtime/backend/backend.h"

namespace dabke::ops {

class ShmBackend final : public Backend {
 public:
  /// `heap` is this rank's registered memory; null if it has none. Must outlive the backend.
  explicit ShmBackend(std::unique_ptr<ShmDomain> domain, shm::SharedHeap* heap = nullptr, Log log = Log(),
                      StorePolicy stores = StorePolicy::automatic);

  std::string_view name() const override { return "shm"; }
  bool can_run(const CallSpec& call, const Extent& extent) const override;
  bool can_serve(const ProcessSetInfo& set) const override;
  /// Without system calls and copies into a fusion buffer, a batch of few tensors costs little more than its
  /// bytes. No tensor gains from running alone.
  BatchSizes batch_sizes() const override {
    return {.learned = 512 << 10, .alone = std::numeric_limits<std::uint32_t>::max()};
  }
  bool can_run_on_waiters() const override { return true; }
  /// The domain's memory serves all sets.
  Status prepare(const ProcessSetInfo& set, Device device) override;
  void run(const Batch& batch, Completion done) override { done(run_batch(batch)); }
  void release(ProcessSetId set, Device device) override;
  void abort(const Status& cause) override { steps_.abort(cause); }

 private:
  using Members = std::shared_ptr<const std::vector<std::size_t>>;

  Status run_batch(const Batch& batch);
  Status run_steps(const Batch& batch, const std::vector<std::size_t>& members, RunScope& activity);
  Status run_private(const Batch& batch, const std::vector<std::size_t>& members, RunScope& activity);
  Status run_staged(const Batch& batch, const std::vector<std::size_t>& members);

  std::unique_ptr<ShmDomain> domain_;
  ShmSteps steps_;
  ShmStores stores_;
  RemoteAccessGuard remote_access_;
  PeerHeaps heaps_;
  RegisteredTensors registered_;
  SingleCopy single_copy_;
  std::map<ProcessSetId, Members> members_;  // the members of each set, by index in the domain
  std::vector<const void*> operands_;
};

/// Returns null if this rank shares memory with no other. Collective.
Result<std::unique_ptr<Backend>> open_shm_backend(const BackendContext& context);

}  // namespace dabke::ops
