// The half of one rank's negotiation that reports up what is ready on this rank and below it.
//
//   1. announce(): the rank's own request counts, by slot if its signature has one, otherwise in full. A
//      tensor of a learned batch is kept back until the batch is ready on this rank (learned_batches.h).
//   2. from_child(): the reports of the children in the tree count. The Collector gathers both.
//   3. Names that all of the subtree has ready go into one message to the parent, with the next flush(). On
//      the root they go to the Sequencer.
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

/// A name that became ready on this rank or below it; what the root sees, for the timeline.
struct Readiness {
  std::string name;
  CollectiveKind kind;
  ProcessSetId process_set = kWorldSet;
  int set_rank = 0;
  bool first = false;  // no rank had reported it before
  bool last = false;   // now all ranks have
};
/// The time for which one batch of reports waited for this rank.
struct Lateness {
  Rank rank;
  Duration by;
  CollectiveKind kind;  // of the first report
};
struct CacheCounts {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
};

class UpwardReporter {
 public:
  /// A rank with nothing to report sends what it has seen once so many slots were evicted since its last
  /// message: its parent remembers them for this rank.
  static constexpr std::uint64_t kMostUnreported = 256;

  UpwardReporter(NegotiationState& state, Outbox& outbox, Endings& endings, StallInspector& stalls)
      : state_(state),
        outbox_(outbox),
        endings_(endings),
        stalls_(stalls),
        children_(state.collector, state.cache),
        held_until_(state.deadlines, [this](TimePoint now) { report(state_.learned.overdue(now), now); }) {}

  /// Reports the entry's first request, which is new.
  void announce(TensorEntry& entry, TimePoint now);
  /// Reports the set's join that is pending here, and the names of which more is queued here than was
  /// reported. Called again whenever one of these names is finished. To wait for them first would be a
  /// deadlock if another rank did so with another name: each would wait for what the other has queued.
  void announce_join(ProcessSetId set, TimePoint now);
  /// Reports slots that were kept back here.
  void report(const std::vector<wire::Slot>& slots, TimePoint now);
  /// A thread waits for the tensor or group with this key, so no rank may keep it back.
  void want(ProcessSetId set, const std::string& key, TimePoint now);
  /// Reports the entry if it is kept back here, and keeps it back no more until its next order.
  void let_go(TensorEntry& entry, TimePoint now);
  void from_child(int reporter, const wire::ReadyMessage& message, TimePoint now);
  /// Sends what there is to report. Does nothing on the root.
  void flush();

  /// Reports of this name from before the order of number `until` are void.
  void void_reports(ProcessSetId set, const std::string& key, std::uint64_t until);
  /// Ends the meaning of the entry's slot, from the order of number `until` on.
  void evict(TensorEntry& entry, std::uint64_t until);
  void remove_set(ProcessSetId set) { last_joined_.erase(set); }

  /// `recording` is 0 for none, otherwise a different number for each timeline.
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
  Deadline held_until_;           // for names that are kept back here
  wire::ReadyMessage message_;    // to the parent
  std::uint64_t unreported_ = 0;  // orders since the last message for which the parent remembers something
  std::map<ProcessSetId, Rank> last_joined_;  // below this rank
  TimePoint late_until_{};
  std::uint64_t recording_ = 0;
  std::vector<Readiness> readiness_;
  std::vector<Lateness> lateness_;
  CacheCounts cache_counts_;
};

}  // namespace dabke::negotiation
