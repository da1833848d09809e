// What slots stand for: a tensor that has been ordered before is negotiated by its slot alone.
//
//   1. The root's SlotAllocator gives a slot to a signature when it is first ordered, and takes slots back, the
//      one that was ordered longest ago first; always inside the order stream. A rank that did so by itself
//      would take later slots for other tensors.
//   2. Every rank's ResponseCache holds what each slot means here, as of the last order that it has applied.
//   3. A slot that is taken back may still be reported by ranks that have not seen that order: its signature is
//      remembered until all who might do so have.
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
  /// Null when the slot means nothing any more.
  TensorEntry* find(wire::Slot slot) const;
  /// Lets `slot` stand for this signature of this tensor from now on.
  void bind(TensorEntry& entry, wire::Slot slot, RequestRef agreed);
  /// The entry's slot means nothing from now on.
  void unbind(TensorEntry& entry);
  /// The same, but who reports it without having seen the order of this number is still understood, until
  /// forget_evicted(). The numbers grow.
  void evict(TensorEntry& entry, std::uint64_t until);
  /// What the slot stood for; null when nobody may still report it.
  RequestRef evicted(wire::Slot slot) const;
  std::size_t count_evicted() const { return evicted_.size(); }
  /// `seen_by_all(set, oldest)`: the last order of which all have heard who might report a slot of that set.
  /// `oldest` is the number of the first order that matters.
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
  /// What was evicted of this set is forgotten too.
  void remove_set(ProcessSetId set);
  void clear();

  /// The entry whose slot has this index; null when there is none. Prefetches what is likely to be looked at
  /// soon.
  TensorEntry* at(wire::SlotIndex index) const;

 private:
  void prefetch_after(wire::SlotIndex index) const;

  std::vector<TensorEntry*> entries_;  // by slot index
  std::unordered_map<wire::Slot, RequestRef> evicted_;
  struct Eviction {
    std::uint64_t until;
    wire::Slot slot;
  };
  std::map<ProcessSetId, std::deque<Eviction>> evictions_;  // those of evicted_, the oldest first
};

/// The root's slots: which are in use, and for how long unused.
class SlotAllocator {
 public:
  /// `capacity`: slots in use at one time; 0: none.
  explicit SlotAllocator(std::size_t capacity) : capacity_(capacity) {}

  /// Nothing when all are in use.
  std::optional<wire::Slot> take(ProcessSetId set);
  void give_back(wire::Slot slot);
  void give_back_all(ProcessSetId set);
  /// It was ordered just now.
  void touch(wire::Slot slot) { by_age_.splice(by_age_.end(), by_age_, slots_[wire::index_of(slot)].by_age); }
  /// Those in use, the longest unused first.
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
