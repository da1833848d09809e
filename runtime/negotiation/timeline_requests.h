// Starting and stopping the timeline: orders of the one sequence, so that every rank does it between the same two.
//
//   1. Ranks call start and stop: always the same one, or each the same calls in the same order, however far apart.
//   2. All changes that were ordered form one list, which every rank knows up to where it is. Each rank has a position
//      in it, behind the change that was its last call's. A call that is among the changes from there on is done
//      already: another rank's call has come first.
//   3. Else the rank asks the root, and says its position. The root looks in the list's end, which the rank may not
//      know yet, and orders the change if it is not there.
//   4. Either way the rank finds its call in the list, sooner or later.
//   5. A start on a path is not ordered while the root still reads what the period before has left there: hold(), release().
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

/// Changes in the order of the sequence, from the first one on; the oldest of very many are forgotten.
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
  /// How many there were, the forgotten ones too.
  std::uint64_t size() const { return first_ + changes_.size(); }
  /// The first of those from the `from`-th on that `is_it`; size(): none.
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
  std::uint64_t first_ = 0;  // the number of the first that is known
};

class TimelineRequests {
 public:
  TimelineRequests(NegotiationState& state, Outbox& outbox) : state_(state), outbox_(outbox) {}

  /// On the root from whatever rank, on others from this one.
  void ask(wire::TimelineChange change, std::uint64_t from, TimePoint now);
  /// On the root: no start on this path is ordered until it is released.
  void hold(const std::string& path);
  void release(const std::string& path, TimePoint now);

 private:
  struct Asked {
    wire::TimelineChange change;
    std::uint64_t from;
  };

  NegotiationState& state_;
  Outbox& outbox_;
  // The root's.
  ChangeList<wire::TimelineChange> ordered_;
  std::set<std::string> held_;  // paths, in their normal form
  std::vector<Asked> waiting_;  // on those paths
};

}  // namespace dabke::negotiation
