// Starts and stops of the timeline. They are orders of the one sequence, so every rank changes its timeline
// between the same two orders.
//
//   1. Ranks call start and stop: either always the same rank, or each rank makes the same calls in the same
//      order, however far apart.
//   2. All changes that were ordered form one list. Every rank has this list up to its last order, and a
//      position in it, behind the change of its own last call. A call that the list has from that position on
//      is done already: another rank's call came first.
//   3. Otherwise the rank sends its call and its position to the root. The root searches the end of the list,
//      which the rank may not have yet, and orders the change if it is not there.
//   4. In both cases the rank finds its call in the list, sooner or later.
//   5. A start on a path is not ordered while the root still reads there what the previous timeline has left:
//      hold(), release().
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/negotiation/state/negotiation_state.h"
#include "runtime/negotiation/state/outbox.h"

namespace dabke::negotiation {

/// Changes in the order of the sequence, from the first one on. The oldest of very many are dropped.
template <class Change>
class ChangeList {
 public:
  static constexpr std::size_t kMost = 4096;

  void add(Change change) {
    changes_.push_back(std::move(change));
    if (changes_.size() <= kMost) return;
    changes_.pop_front();
    ++first_;
  }
  /// The number of changes, including dropped ones.
  std::uint64_t size() const { return first_ + changes_.size(); }
  /// Returns the first change from the `from`-th on for which `is_it` is true; size() if there is none.
  template <class Is>
  std::uint64_t find(std::uint64_t from, Is is_it) const {
    for (std::uint64_t i = std::max(from, first_); i < size(); ++i) {
      if (is_it(at(i))) return i;
    }
    return size();
  }
  const Change& at(std::uint64_t index) const { return changes_[index - first_]; }
  Change& at(std::uint64_t index) { return changes_[index - first_]; }

 private:
  std::deque<Change> changes_;
  std::uint64_t first_ = 0;  // the number of the first change that is kept
};

class TimelineRequests {
 public:
  TimelineRequests(NegotiationState& state, Outbox& outbox) : state_(state), outbox_(outbox) {}

  /// Asks for a change: on the root from any rank, on other ranks from this one.
  void ask(wire::TimelineChange change, std::uint64_t from, TimePoint now);
  /// On the root: orders no start on this path until it is released.
  void hold(const std::string& path);
  void release(const std::string& path, TimePoint now);

 private:
  struct Asked {
    wire::TimelineChange change;
    std::uint64_t from;
  };

  NegotiationState& state_;
  Outbox& outbox_;
  // For the root.
  ChangeList<wire::TimelineChange> ordered_;
  std::set<std::string> held_;  // paths, in their normal form
  std::vector<Asked> waiting_;  // for those paths
};

}  // namespace dabke::negotiation
