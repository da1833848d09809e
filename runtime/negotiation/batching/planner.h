// Chooses the ordered tensors that travel together. A pure function, called by the root alone: its batches
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

/// The properties that must be equal for two tensors to share a batch.
struct FusionKey {
  CallSpec call;  // as requested; the set and the number of contributors then decide what runs
  ProcessSetId process_set = kWorldSet;
  int contributors = 0;
  std::int64_t group = -1;    // the request's index in the list, if groups are kept apart
  std::uint64_t learned = 0;  // its learned batch; 0: none
  friend bool operator==(const FusionKey&, const FusionKey&) = default;
};

struct PlanItem {
  FusionKey key;
  std::size_t size_bytes = 0;
};

/// Learned batches that come in one list are ready at the same time. Up to this size they run as one, which
/// saves the fixed cost of each.
inline constexpr std::size_t kTogetherBytes = 32 << 20;

/// Returns batches of indices into `items`, in the order of their first items. A batch begins with its first
/// item. It takes later items of its key as long as the sum of their padded sizes stays within the threshold,
/// and passes over items that do not fit. It takes items of other learned batches within kTogetherBytes.
/// alltoall is never fused.
std::vector<std::vector<std::size_t>> plan_batches(std::span<const PlanItem> items,
                                                   const FusionSettings& settings);

}  // namespace dabke::negotiation
