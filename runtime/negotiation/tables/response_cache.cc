#include "runtime/negotiation/tables/response_cache.h"

#include "runtime/negotiation/tables/tensor_table.h"

namespace dabke::negotiation {

void ResponseCache::prefetch_after(wire::SlotIndex index) const {
  constexpr wire::SlotIndex kAhead = 2;
  if (index + kAhead >= entries_.size()) return;
  // The address is a number, because there may be no object at it. The processor allows that, the language
  // does not.
  const auto first = reinterpret_cast<std::uintptr_t>(entries_[index + kAhead]);
  for (std::size_t at = 0; at < sizeof(TensorEntry); at += alignof(TensorEntry))
    __builtin_prefetch(reinterpret_cast<const void*>(first + at));
}

TensorEntry* ResponseCache::at(wire::SlotIndex index) const {
  if (index >= entries_.size()) return nullptr;
  prefetch_after(index);
  return entries_[index];
}

TensorEntry* ResponseCache::find(wire::Slot slot) const {
  TensorEntry* const entry = at(wire::index_of(slot));
  return entry != nullptr && entry->slot == slot ? entry : nullptr;
}

void ResponseCache::bind(TensorEntry& entry, wire::Slot slot, RequestRef agreed) {
  if (entry.slot != wire::kNoSlot && entry.slot != slot) entries_[wire::index_of(entry.slot)] = nullptr;
  if (wire::index_of(slot) >= entries_.size()) entries_.resize(wire::index_of(slot) + 1);
  entries_[wire::index_of(slot)] = &entry;
  entry.slot = slot;
  entry.agreed = std::move(agreed);
}

void ResponseCache::unbind(TensorEntry& entry) {
  entries_[wire::index_of(entry.slot)] = nullptr;
  entry.slot = wire::kNoSlot;
  entry.agreed.reset();
}

void ResponseCache::evict(TensorEntry& entry, std::uint64_t until) {
  evicted_.emplace(entry.slot, entry.agreed);
  evictions_[entry.process_set].push_back({until, entry.slot});
  unbind(entry);
}

RequestRef ResponseCache::evicted(wire::Slot slot) const {
  const auto found = evicted_.find(slot);
  return found == evicted_.end() ? nullptr : found->second;
}

void ResponseCache::remove_set(ProcessSetId set) {
  for (TensorEntry*& entry : entries_) {
    if (entry != nullptr && entry->process_set == set) entry = nullptr;
  }
  const auto gone_before = evictions_.find(set);
  if (gone_before == evictions_.end()) return;
  for (const Eviction& eviction : gone_before->second) evicted_.erase(eviction.slot);
  evictions_.erase(gone_before);
}

void ResponseCache::clear() {
  entries_.clear();
  evicted_.clear();
  evictions_.clear();
}

std::optional<wire::Slot> SlotAllocator::take(ProcessSetId set) {
  if (free_.empty()) {
    if (slots_.size() >= capacity_) return std::nullopt;
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  State& state = slots_[index];
  const wire::Slot slot = (static_cast<wire::Slot>(state.uses++) << 32) | index;
  state.process_set = set;
  state.by_age = by_age_.insert(by_age_.end(), slot);
  return slot;
}

void SlotAllocator::give_back(wire::Slot slot) {
  by_age_.erase(slots_[wire::index_of(slot)].by_age);
  free_.push_back(static_cast<std::uint32_t>(wire::index_of(slot)));
}

void SlotAllocator::give_back_all(ProcessSetId set) {
  for (auto slot = by_age_.begin(); slot != by_age_.end();) {
    const wire::Slot here = *slot++;
    if (slots_[wire::index_of(here)].process_set == set) give_back(here);
  }
}

}  // namespace dabke::negotiation
