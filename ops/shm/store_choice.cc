#include "ops/shm/store_choice.h"

#include <algorithm>
#include <bit>

namespace dabke::ops {

void StoreChoice::saw(StoreCost cost) {
  if (cost.streams != streams()) return;  // from batches before the others read the new choice
  if (is_trial_) {
    if (cost.ns_per_kb < cost_ * kClearGain) {
      chosen_ = cost.streams;
      cost_ = cost.ns_per_kb;
    }
    return end_trial(std::clamp(cost.ns_per_kb / cost_, 1.0f, kMostTimes));
  }
  constexpr float kMostAtOnce = 2;  // a rank that has lost its core meanwhile gives no useful cost
  cost_ = cost_ == 0 ? cost.ns_per_kb : cost_ + (std::min(cost.ns_per_kb, kMostAtOnce * cost_) - cost_) / 4;
  const bool has_changed = cost_ > at_trial_ * kOtherTimes || cost_ * kOtherTimes < at_trial_;
  ++periods_;
  is_trial_ = at_trial_ == 0 || periods_ >= (has_changed ? kFewestPeriods : until_next_);
  if (is_trial_) periods_ = 0;
}

void StoreChoice::saw_no_agreement() {
  if (is_trial_ && ++periods_ >= kMostTrialPeriods) end_trial(kMostTimes);
}

/// `times` is the cost of the trial, relative to the cost of the chosen way.
void StoreChoice::end_trial(float times) {
  is_trial_ = false;
  periods_ = 0;
  until_next_ = static_cast<unsigned>(times * kPeriodsBetween);
  at_trial_ = cost_;
}

std::optional<std::size_t> store_kind(std::size_t bytes, bool is_registered) {
  if (bytes < kLeastStored) return std::nullopt;
  const std::size_t size = bytes < kLeastStored << 4   ? 0
                           : bytes < kLeastStored << 7 ? 1
                                                       : 2;  // to 1 MB, to 8 MB, above
  return size + (is_registered ? kStoreKinds / 2 : 0);
}

std::uint32_t packed(StoreCost cost) {
  const auto bits = std::bit_cast<std::uint32_t>(std::max(cost.ns_per_kb, 1e-3f));
  return bits >> 1 << 1 | (cost.streams ? 1u : 0u);
}

std::optional<StoreCost> unpacked(std::uint32_t cost) {
  if (cost == 0) return std::nullopt;
  return StoreCost{(cost & 1) != 0, std::bit_cast<float>(cost >> 1 << 1)};
}

}  // namespace dabke::ops
