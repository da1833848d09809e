// One rank's half of the negotiation that reports up: what is ready here and below.
//
//   1. announce(): the rank's own request counts, by slot where its signature is known, else in full. A tensor
//      of a learned batch is kept back until the batch is ready here (learned_batches.h).
//   2. from_child(): so do the reports of the children in the tree. The Collector gathers both.
//   3. What all of the subtree has ready goes into one message to the parent, with the next flush(); on the
//      root, to the Sequencer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/negotiation/stalls/stall_inspector.h"
#include "runtime/negotiation/state/endings.h"
#include "runtime/negotiation/state/negotiation_state.h"
#include "runtime/negotiation/tables/child_progress.h"

namespace dabke::negotiation {

/// Below this rank (itself included) a name became ready; what the root sees, for the timeline.
struct Readiness {
  std::string name;
  CollectiveKind kind;
  ProcessSetId process_set = kWorldSet;
  int set_rank = 0;
  bool first = false;  // nobody had reported it before
  bool last = false;   // now everybody has
};
/// One batch of reports waited for this rank.
struct Lateness {
  Rank rank;
  Duration by;
  CollectiveKind kind;  // the kind of the first of them
};
struct CacheCounts {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
};

class UpwardReporter {
 public:
  /// A rank with nothing to report says what it has seen when so many slots were evicted since its last word:
  /// its parent remembers them for it.
  static constexpr std::uint64_t kMostUnreported = 256;

  UpwardReporter(NegotiationState& state, Outbox& outbox, Endings& endings, StallInspector& stalls)
      : state_(state),
        outbox_(outbox),
        endings_(endings),
        stalls_(stalls),
        children_(state.collector, state.cache),
        held_until_(state.deadlines, [this](TimePoint now) { report(state_.learned.overdue(now), now); }) {}

  /// The entry's first request is new there.
  void announce(TensorEntry& entry, TimePoint now);
  /// The set's join that is pending here, with the names of which more is queued here than has been reported;
  /// and again whenever one of them is no longer. To wait for them first would be a deadlock where another
  /// rank does the same with another name, and each is waited for by what the other has queued.
  void announce_join(ProcessSetId set, TimePoint now);
  /// What was kept back here is reported.
  void report(const std::vector<wire::Slot>& slots, TimePoint now);
  /// A thread waits for what has this key: nobody is to keep it back.
  void want(ProcessSetId set, const std::string& key, TimePoint now);
  /// Reports it if it is kept back here, and keeps it back no more until its next order.
  void let_go(TensorEntry& entry, TimePoint now);
  void from_child(int reporter, const wire::ReadyMessage& message, TimePoint now);
  /// Sends what there is to say, on any rank but the root.
  void flush();

  /// An order ends reports of this name that are under way.
  void void_reports(ProcessSetId set, const std::string& key, std::uint64_t until);
  /// The entry's slot means nothing from the order of this number on.
  void evict(TensorEntry& entry, std::uint64_t until);
  void remove_set(ProcessSetId set) { last_joined_.erase(set); }

  /// `recording`: 0 for none, else a number of its own for each timeline.
  void record_readiness(std::uint64_t recording) { recording_ = recording; }
  std::vector<Readiness> take_readiness() { return std::exchange(readiness_, {}); }
  std::vector<Lateness> take_lateness() { return std::exchange(lateness_, {}); }
  const CacheCounts& cache_counts() const { return cache_counts_; }
  const ChildProgress& children() const { return children_; }

 private:
  void report_slot(TensorEntry& entry, int reporter, TimePoint now);
  void report_in_full(TensorEntry& entry, int reporter, const wire::Report& report, TimePoint now);
  void took(TensorEntry& entry, Collector::Took took, int reporter, TimePoint now);
  void pass_up(TensorEntry& entry, TimePoint now);
  void slot_from_child(int reporter, wire::Slot slot, std::uint64_t seen, TimePoint now);
  void note_join(int reporter, const wire::JoinReport& join, TimePoint now);
  void note_wanted(wire::Slot slot, TimePoint now);
  void note_awaited(TensorEntry& entry, TimePoint now);
  void note_readiness(TensorEntry& entry, int reporter, bool complete);
  void note_late(Rank rank, Duration by, CollectiveKind kind);
  CollectiveKind kind_of(const wire::ReadyMessage& message) const;

  NegotiationState& state_;
  Outbox& outbox_;
  Endings& endings_;
  StallInspector& stalls_;
  ChildProgress children_;
  Deadline held_until_;           // what is kept back here
  wire::ReadyMessage message_;    // to the parent
  std::uint64_t unreported_ = 0;  // since the last message: orders for which the parent remembers something
  std::map<ProcessSetId, Rank> last_joined_;  // below this rank
  TimePoint late_until_{};
  std::uint64_t recording_ = 0;
  std::vector<Readiness> readiness_;
  std::vector<Lateness> lateness_;
  CacheCounts cache_counts_;
};

}  // namespace dabke::negotiation
