// Work of one rank on memory that belongs to others, and how they make sure that it is over.
//
// As long as all goes well, the last step of a collective says so. But a rank that ends it with an error
// gives its tensors back to the application at once, while another, which has not heard of the error yet, may
// still write to them. So whoever gives up closes its memory first, and waits until those who were inside
// have come out:
//   1. Who works on others' memory says `inside`, then looks whether one of them has said `closed`, and then
//      begins.
//   2. Who gives up says `closed`, and then waits until nobody is `inside`.
// Both sequentially consistent, so one of the two sees the other. A rank that was killed inside never comes
// out, and does no harm there; nor does a stopped one for as long as it is stopped: the wait has a limit.
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

  /// An error when one of these ranks (indices in the domain) has given up.
  Result<Visit> enter(const std::vector<std::size_t>& ranks);
  /// Closes for good: after an error a domain is of no use any more.
  void close(const std::vector<std::size_t>& ranks);

 private:
  ShmDomain& domain_;
};

}  // namespace dabke::ops
