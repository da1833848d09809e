// The signatures that slots represent: a tensor that has been ordered before is negotiated by its slot alone.
//
//   1. The root's SlotAllocator gives a slot to a signature when it is first ordered. It takes slots back,
//      the one that was ordered longest ago first. Both happen only inside the order stream: a rank that did
//      so by itself would take later slots for other tensors.
//   2. Every rank's ResponseCache holds what each slot means here, as of the last order that the rank has
//      applied.
//   3. Ranks that have not seen the order which takes a slot back may still report the slot. Its signature is
//      remembered until all such ranks have seen that order.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

struct TensorEntry;

class ResponseCache {
 public:
  /// Returns null if the slot has no meaning any more.
  TensorEntry* find(wire::Slot slot) const;
  /// Makes `slot` represent this signature of this tensor from now on.
  void bind(TensorEntry& entry, wire::Slot slot, RequestRef agreed);
  /// Ends the meaning of the entry's slot.
  void unbind(TensorEntry& entry);
  /// Like unbind(), but reports from ranks that have not seen the order of number `until` are still
  /// understood, until forget_evicted(). The numbers grow.
  void evict(TensorEntry& entry, std::uint64_t until);
  /// Returns what the slot represented; null if no rank may still report it.
  RequestRef evicted(wire::Slot slot) const;
  std::size_t count_evicted() const { return evicted_.size(); }
  /// `seen_by_all(set, oldest)` is the last order that was seen by all ranks that might report a slot of that
  /// set. `oldest` is the number of the first order that matters.
  template <class SeenByAll>
  void forget_evicted(SeenByAll seen_by_all) {
    for (auto& [set, evictions] : evictions_) {
      if (evictions.empty()) continue;
      const std::uint64_t seen = seen_by_all(set, evictions.front().until);
      for (; !evictions.empty() && evictions.front().until <= seen; evictions.pop_front()) {
        evicted_.erase(evictions.front().slot);
      }
    }
  }
  /// Also drops what was evicted of this set.
  void remove_set(ProcessSetId set);
  void clear();

  /// Returns the entry whose slot has this index; null if there is none. Prefetches the entry that is likely
  /// to be read soon.
  TensorEntry* at(wire::SlotIndex index) const;

 private:
  void prefetch_after(wire::SlotIndex index) const;

  std::vector<TensorEntry*> entries_;  // by slot index
  std::unordered_map<wire::Slot, RequestRef> evicted_;
  struct Eviction {
    std::uint64_t until;
    wire::Slot slot;
  };
  std::map<ProcessSetId, std::deque<Eviction>> evictions_;  // of evicted_, the oldest first
};

/// The root's slots: which are in use, and how long each is unused.
class SlotAllocator {
 public:
  /// `capacity` is the number of slots in use at one time; 0 for none.
  explicit SlotAllocator(std::size_t capacity) : capacity_(capacity) {}

  /// Returns nothing if all slots are in use.
  std::optional<wire::Slot> take(ProcessSetId set);
  void give_back(wire::Slot slot);
  void give_back_all(ProcessSetId set);
  /// Notes that the slot was ordered just now.
  void touch(wire::Slot slot) { by_age_.splice(by_age_.end(), by_age_, slots_[wire::index_of(slot)].by_age); }
  /// The slots in use, the longest unused first.
  const std::list<wire::Slot>& by_age() const { return by_age_; }

 private:
  struct State {
    std::uint32_t uses = 0;  // how often the index was given: the slot's high half
    ProcessSetId process_set = kWorldSet;
    std::list<wire::Slot>::iterator by_age;
  };

  std::size_t capacity_;
  std::vector<State> slots_;  // by slot index
  std::vector<std::uint32_t> free_;
  std::list<wire::Slot> by_age_;
};

}  // namespace dabke::negotiation
