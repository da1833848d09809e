#include "runtime/negotiation/state/negotiation_state.h"

#include <fmt/format.h>

#include "runtime/negotiation/tables/name_key.h"

namespace dabke::negotiation {
namespace {

void add_first_set(NegotiationState& state, const FirstSet& set) {
  state.sets.add(set.id, set.ranks);
  state.collector.add_set(set.id, set.ranks);
  if (state.sequencer) state.sequencer->add_first_set(set);
}

/// Adds the sets that all ranks have from the start.
void add_first_sets(NegotiationState& state) {
  for (const std::vector<Rank>& ranks : state.options.static_sets)
    add_first_set(state, {state.sets.next_id(), ranks});
  const FirstSets& first = state.options.first_sets;
  for (const FirstSet& set : first.sets) add_first_set(state, set);
  if (state.sequencer) state.sequencer->begin_set_ids_at(first.next_id);
}

}  // namespace

NegotiationState::NegotiationState(MachineOptions from)
    : options(std::move(from)),
      sets(options.topology->everybody()),
      collector(options.topology, options.rank),
      left(static_cast<std::size_t>(options.topology->size())),
      left_at(left.size()) {
  if (options.rank == kRootRank) {
    sequencer = std::make_unique<Sequencer>(options.sequencer, options.topology, tensors, cache);
  }
  add_first_sets(*this);
}

void NegotiationState::meet_pair(ProcessSetId pair) {
  if (!is_pair_in(pair, options.topology->size()) || !sets.meet(pair)) return;
  const std::vector<Rank>& ranks = *sets.ranks_of(pair);
  collector.add_set(pair, ranks);
  if (has_left(ranks.front()) || has_left(ranks.back())) collector.end_set(pair);
}

std::string difference_in_tables(const NegotiationState& mine, const NegotiationState& of_root) {
  std::string what;
  const auto note = [&what](std::string text) {
    if (what.empty()) what = std::move(text);
  };
  mine.tensors.for_each([&](const TensorEntry& entry) {
    if (!entry.collection.empty()) note(fmt::format("{} is incomplete here", shown(entry.name)));
    if (!entry.waiting.empty()) {
      note(fmt::format("{} waits here{}, slot {:#x}, batch {}", shown(entry.name),
                       entry.held ? ", kept back" : "", entry.slot, entry.batch));
    }
    if (entry.slot == wire::kNoSlot) return;
    const TensorEntry* theirs = of_root.cache.find(entry.slot);
    if (theirs == nullptr || theirs->name != entry.name || theirs->process_set != entry.process_set ||
        !agree(*theirs->agreed, *entry.agreed)) {
      note(fmt::format("slot {} is {} here and {} there", entry.slot, shown(entry.name),
                       theirs == nullptr ? "nothing" : shown(theirs->name)));
    }
  });
  of_root.tensors.for_each([&](const TensorEntry& entry) {
    if (entry.slot == wire::kNoSlot || !mine.takes_part_in(entry.process_set)) return;
    if (mine.cache.find(entry.slot) == nullptr)
      note(fmt::format("slot {} ({}) is not known here", entry.slot, shown(entry.name)));
  });
  if (mine.sets.added_ids() != of_root.sets.added_ids()) note("the process sets");
  return what;
}

}  // namespace dabke::negotiation
