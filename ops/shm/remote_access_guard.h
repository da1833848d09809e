// Protects memory that a rank works on while it belongs to others.
//
// As long as all goes well, the last step of a collective ends that work. But a rank that ends the collective
// with an error gives its tensors back to the application at once. Another rank, which has not noticed the
// error yet, may still write to them. So a rank that fails closes its memory first, and waits until all ranks
// that were inside have left:
//   1. A rank that works on others' memory sets `inside`, then checks whether one of them has set `closed`,
//      and then begins.
//   2. A rank that fails sets `closed`, and then waits until no rank is `inside`.
// Both are sequentially consistent, so at least one of the two ranks sees the other. A rank that was killed
// inside never leaves, and does no harm there. A stopped rank does no harm while it is stopped. So the wait
// has a limit.
#pragma once

#include <vector>

#include "ops/shm/shm_domain.h"

namespace dabke::ops {

class RemoteAccessGuard {
 public:
  explicit RemoteAccessGuard(ShmDomain& domain) : domain_(domain) {}

  /// One stay inside.
  class Visit {
   public:
    explicit Visit(ShmVisitState& own) : own_(&own) {}
    Visit(Visit&& other) noexcept : own_(std::exchange(other.own_, nullptr)) {}
    Visit& operator=(Visit&&) = delete;
    ~Visit() {
      if (own_ != nullptr) own_->inside.store(0, std::memory_order_release);
    }

   private:
    ShmVisitState* own_;
  };

  /// Returns an error if one of these ranks (indices in the domain) has failed.
  Result<Visit> enter(const std::vector<std::size_t>& ranks);
  /// Closes for good: after an error a domain cannot be used any more.
  void close(const std::vector<std::size_t>& ranks);

 private:
  ShmDomain& domain_;
};

}  // namespace dabke::ops
