// Every unit that has not completed, wherever it is: in the negotiation, in a lane, on its way between them.
// The job may end in the middle of a step that has lost sight of one, when memory runs out; this list has
// not.
//
// The driver of the coordinator adds, any thread removes, and neither waits. Entries are used again, so a
// steady job makes none.
#pragma once

#include <atomic>
#include <deque>

namespace dabke {

class Unit;

class OutstandingUnits {
 public:
  struct Entry {
    Unit* unit = nullptr;
    Entry* next = nullptr;  // among those that are free
    OutstandingUnits* home = nullptr;
  };

  OutstandingUnits() = default;
  OutstandingUnits(const OutstandingUnits&) = delete;
  OutstandingUnits& operator=(const OutstandingUnits&) = delete;

  /// Makes sure that add() has room; may throw. By the driver, as add() is.
  void make_room() {
    if (free_ == nullptr) free_ = removed_.exchange(nullptr, std::memory_order_acquire);
    if (free_ != nullptr) return;
    free_ = &entries_.emplace_back();
    free_->home = this;
  }
  Entry* add(Unit& unit) noexcept {
    Entry* const entry = free_;
    free_ = entry->next;
    entry->unit = &unit;
    return entry;
  }
  static void remove(Entry* entry) noexcept {
    std::atomic<Entry*>& removed = entry->home->removed_;
    entry->unit = nullptr;
    entry->next = removed.load(std::memory_order_relaxed);
    while (!removed.compare_exchange_weak(entry->next, entry, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
  }

  /// When nobody else adds or removes any more. `use` may remove the unit that it is given.
  template <class Use>
  void for_each(Use use) {
    for (Entry& entry : entries_) {
      if (entry.unit != nullptr) use(*entry.unit);
    }
  }

 private:
  std::deque<Entry> entries_;
  Entry* free_ = nullptr;
  std::atomic<Entry*> removed_{nullptr};
};

}  // namespace dabke
