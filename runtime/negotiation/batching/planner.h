// The choice of ordered tensors that travel together. A pure function, asked by the root alone: its batches
// travel with the orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/settings/fusion_settings.h"
#include "runtime/base/world.h"
#include "runtime/call/call_spec.h"

namespace dabke::negotiation {

/// What must be equal for two tensors to share a batch.
struct FusionKey {
  CallSpec call;  // as asked: what runs follows from it, from the set and from the number of contributors
  ProcessSetId process_set = kWorldSet;
  int contributors = 0;
  std::int64_t group = -1;    // the request's place in the list where groups are kept apart
  std::uint64_t learned = 0;  // the learned batch it belongs to; 0: none
  friend bool operator==(const FusionKey&, const FusionKey&) = default;
};

struct PlanItem {
  FusionKey key;
  std::size_t size_bytes = 0;
};

/// Learned batches that come in one list are ready at the same time, so what each would cost by itself can be
/// saved: up to here they are run as one.
inline constexpr std::size_t kTogetherBytes = 32 << 20;

/// Batches of indices into `items`. A batch begins where its first item stands and takes later items of its
/// key as long as the sum of their padded sizes stays within the threshold, passing over items that do not
/// fit; items of other learned batches within kTogetherBytes. alltoall is never fused. Batches are in the
/// order of their first items.
std::vector<std::vector<std::size_t>> plan_batches(std::span<const PlanItem> items,
                                                   const FusionSettings& settings);

}  // namespace dabke::negotiation
