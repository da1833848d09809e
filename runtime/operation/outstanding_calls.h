// Every call that has not completed, wherever it is: in the negotiation, in a lane, or on its way between
// them. The negotiation refers to a call by its token, a number in this table. When memory runs out, the job
// may end in the middle of a step that has lost a call. This table still has that call.
//
// The driver of the coordinator adds and finds calls, any thread removes them, and none of these waits.
// Entries are reused, so a steady job makes none.
#pragma once

#include <atomic>
#include <deque>

#include "runtime/negotiation/negotiator.h"

namespace dabke {

class NegotiatedCall;

class OutstandingCalls {
 public:
  struct Entry {
    NegotiatedCall* call = nullptr;
    Entry* next = nullptr;  // among the free entries
    OutstandingCalls* home = nullptr;
    negotiation::Token token{};
  };

  OutstandingCalls() = default;
  OutstandingCalls(const OutstandingCalls&) = delete;
  OutstandingCalls& operator=(const OutstandingCalls&) = delete;

  /// Makes sure that add() has room. May throw. Called by the driver, as is add().
  void make_room() {
    if (free_ == nullptr) free_ = removed_.exchange(nullptr, std::memory_order_acquire);
    if (free_ != nullptr) return;
    free_ = &entries_.emplace_back();
    free_->home = this;
    free_->token = static_cast<negotiation::Token>(entries_.size());  // 0 is the token of no call
  }
  Entry* add(NegotiatedCall& call) noexcept {
    Entry* const entry = free_;
    free_ = entry->next;
    entry->call = &call;
    return entry;
  }
  static void remove(Entry* entry) noexcept {
    std::atomic<Entry*>& removed = entry->home->removed_;
    entry->call = nullptr;
    entry->next = removed.load(std::memory_order_relaxed);
    while (!removed.compare_exchange_weak(entry->next, entry, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
  }

  /// Returns null for the token of no call: this rank takes part with neutral data. Called by the driver.
  NegotiatedCall* find(negotiation::Token token) const {
    const auto number = static_cast<std::size_t>(token);
    return number == 0 ? nullptr : entries_[number - 1].call;
  }
  /// Called when no other thread adds or removes calls any more. `use` may remove the call that it is given.
  template <class Use>
  void for_each(Use use) {
    for (Entry& entry : entries_) {
      if (entry.call != nullptr) use(*entry.call);
    }
  }

 private:
  std::deque<Entry> entries_;
  Entry* free_ = nullptr;
  std::atomic<Entry*> removed_{nullptr};
};

}  // namespace dabke
