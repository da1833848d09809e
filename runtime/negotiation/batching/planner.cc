#include "runtime/negotiation/batching/planner.h"

#include <algorithm>

namespace dabke::negotiation {
namespace {

/// True if two keys differ only in their learned batches.
bool are_of_two_learned(const FusionKey& a, FusionKey b) {
  if (a.learned == 0 || b.learned == 0) return false;
  b.learned = a.learned;
  return a == b;
}

}  // namespace

std::vector<std::vector<std::size_t>> plan_batches(std::span<const PlanItem> items,
                                                   const FusionSettings& settings) {
  const auto threshold = static_cast<std::size_t>(settings.threshold);
  const auto alone_from = static_cast<std::size_t>(settings.alone);
  struct Open {
    FusionKey key;
    std::size_t batch;
    std::size_t size_bytes;
  };
  std::vector<std::vector<std::size_t>> batches;
  std::vector<Open> open;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const PlanItem& item = items[i];
    const std::size_t bytes = fusion_padded(item.size_bytes);
    const bool alone =
        threshold == 0 || item.size_bytes >= alone_from || bytes > threshold || !fuses(item.key.call.kind);
    const auto fits = [&](const Open& o) {
      if (o.key == item.key) return o.size_bytes + bytes <= threshold;
      return are_of_two_learned(o.key, item.key) &&
             o.size_bytes + bytes <= std::min(threshold, kTogetherBytes);
    };
    if (const auto found = std::ranges::find_if(open, fits); !alone && found != open.end()) {
      batches[found->batch].push_back(i);
      found->size_bytes += bytes;
      continue;
    }
    if (!alone) open.push_back({item.key, batches.size(), bytes});
    batches.push_back({i});
  }
  return batches;
}

}  // namespace dabke::negotiation
