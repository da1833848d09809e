#include "runtime/negotiation/state/snapshot.h"

#include "runtime/negotiation/state/negotiation_state.h"

namespace dabke::negotiation {

Snapshot snapshot_of(const NegotiationState& state) {
  Snapshot out;
  out.last_order = state.last_order;
  state.tensors.for_each([&](const TensorEntry& entry) {
    for (std::size_t i = 0; i < entry.waiting.size(); ++i) {
      const auto how = i > 0        ? Snapshot::State::queued
                       : entry.held ? Snapshot::State::kept_back
                                    : Snapshot::State::announced;
      out.pending.push_back({entry.waiting[i].token, entry.waiting[i].request, how});
    }
    const auto* ranks = state.sets.ranks_of(entry.process_set);
    if (!entry.waiting.empty() && ranks != nullptr) out.sets[entry.process_set] = *ranks;
  });
  state.groups.for_each([&](const IncompleteGroups::Key& key, const IncompleteGroup& group) {
    out.groups.push_back(
        {key.first, key.second, group.members.front()->kind, group.describe(key.second), group.since});
    if (const auto* ranks = state.sets.ranks_of(key.first)) out.sets[key.first] = *ranks;
  });
  for (const auto& [set, join] : state.joins) {
    auto request = std::make_shared<Request>();
    request->kind = CollectiveKind::join;
    request->name = name_of(CollectiveKind::join);
    request->process_set = set;
    out.pending.push_back({join.token, std::move(request), Snapshot::State::announced});
    if (const auto* ranks = state.sets.ranks_of(set)) out.sets[set] = *ranks;
  }
  return out;
}

}  // namespace dabke::negotiation
