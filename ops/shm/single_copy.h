// Broadcasts with one copy: each receiver reads the tensors directly from the root's private memory, by
// process_vm_readv (cross memory attach). Through the stages, the bytes are copied twice.
//
// The root publishes its process id and the addresses of its tensors. Each receiver reads, and then all ranks
// publish whether they could. A kernel or a container may forbid it. Then the batch goes through the
// stages, as do all later ones of these ranks. A process id may mean another process in another container, so
// a receiver first reads a random number that the root has published.
#pragma once

#include <set>
#include <vector>

#include "ops/shm/remote_access_guard.h"
#include "ops/shm/shm_steps.h"
#include "runtime/backend/backend.h"

namespace dabke::ops {

class SingleCopy {
 public:
  SingleCopy(ShmDomain& domain, ShmSteps& steps, RemoteAccessGuard& guard);

  /// The fewest bytes of a batch for which this is faster than the stages.
  static constexpr std::size_t kLeastBytes = std::size_t{128} << 10;

  /// True if the batch may be tried: the same result on all ranks.
  bool can_try(const Batch& batch, std::size_t size_bytes) const;
  /// Runs the batch. False if a rank could not read: then the outputs have any contents. Collective over the
  /// members of the batch's set, with the same result on all ranks.
  Result<bool> broadcast(const Batch& batch, const std::vector<std::size_t>& members);
  void release(ProcessSetId set) { refused_.erase(set); }

 private:
  /// A root publishes this, and then the addresses of its tensors.
  struct Source {
    std::int64_t pid = 0;
    std::uint64_t address = 0;  // of the number
    std::uint64_t number = 0;
  };

  static std::size_t table_bytes(const Batch& batch);
  void write_table(const Batch& batch, std::byte* table);
  Status read(const Batch& batch, const std::byte* table) const;

  ShmDomain& domain_;
  ShmSteps& steps_;
  RemoteAccessGuard& guard_;
  const std::uint64_t number_;
  std::set<ProcessSetId> refused_;  // the sets of which a rank could not read
};

}  // namespace dabke::ops
