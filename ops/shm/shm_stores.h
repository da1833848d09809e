// How this rank stores data that others of its host read next, batch by batch (store_choice.h).
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "ops/shm/shm_domain.h"
#include "ops/shm/store_choice.h"
#include "runtime/base/clock.h"
#include "runtime/base/settings/config.h"
#include "runtime/kernels/kernels.h"

namespace dabke::ops {

class ShmStores {
 public:
  ShmStores(ShmDomain& domain, StorePolicy policy) : domain_(domain), policy_(policy) {}

  /// Begins a batch of these ranks (indices in the domain, in set order).
  void begin(const std::vector<std::size_t>& members, std::size_t bytes, bool is_registered) {
    kind_.reset();
    streams_ = is_measured_ = false;
    took_ = {};
    worked_ = 0;
    if (bytes >= kLeastStored) begin_kind(members, bytes, is_registered);
  }
  /// Ends the batch after its run.
  void end(const std::vector<std::size_t>& members) {
    if (kind_ && ++batches_[*kind_] >= StoreChoice::kPeriod) end_period(members);
  }

  bool streams() const { return streams_; }
  void copy(void* into, const void* from, std::size_t bytes) const {
    if (streams_) {
      kernels::stream_copy(into, from, bytes);
    } else {
      std::memcpy(into, from, bytes);
    }
  }

  /// Runs `work` on `bytes` bytes that another rank reads or has written. Its time is measured in some of the
  /// batches.
  template <class Work>
  void work(std::size_t bytes, Work work) {
    if (!is_measured_) return work();
    const TimePoint begin = Clock::now();
    work();
    took_ += Clock::now() - begin;
    worked_ += bytes;
  }
  /// Ends a round or a block. The cheapest of them counts.
  void note() {
    if (worked_ != 0) note_cost();
  }

 private:
  void begin_kind(const std::vector<std::size_t>& members, std::size_t bytes, bool is_registered);
  void end_period(const std::vector<std::size_t>& members);
  void note_cost();
  void publish(const std::vector<std::size_t>& members);

  ShmDomain& domain_;
  const StorePolicy policy_;
  std::array<StoreChoice, kStoreKinds> choices_;  // for sets whose first rank is this one
  std::array<unsigned, kStoreKinds> batches_{};   // in this period
  std::array<StoreCost, kStoreKinds> best_{};     // in this period; cost 0: not known yet
  std::optional<std::size_t> kind_;
  bool streams_ = false;
  bool is_measured_ = false;
  Duration took_{};
  std::size_t worked_ = 0;
};

}  // namespace dabke::ops
