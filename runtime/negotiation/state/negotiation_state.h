// The state that the roles of one rank's negotiation share: its tables, as of the last order that the rank
// has applied.
//
// Each role is a class that takes events and leaves actions in the Outbox:
//   UpwardReporter     reports what is ready in this rank's subtree
//   Sequencer          on the root: makes orders of what is ready everywhere
//   OrderFollower      passes orders on, and carries them out
//   StallInspector     finds what is late, and which ranks it waits for
//   GroupInspector     the same for groups whose members come one by one
//   SequenceInspector  finds ranks that wait in different calls, where all make the same
//   SenderSearch       finds the sender of a receive from any rank
//   Endings            ends requests, process sets and the job
// The Negotiator owns the roles, and hands each of them the events that concern it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadlines.h"
#include "runtime/base/pair_sets.h"
#include "runtime/base/status.h"
#include "runtime/call/process_set_list.h"
#include "runtime/negotiation/batching/learned_batches.h"
#include "runtime/negotiation/state/sequencer.h"
#include "runtime/negotiation/tables/collector.h"
#include "runtime/negotiation/tables/incomplete_groups.h"
#include "runtime/negotiation/tables/inquiry.h"
#include "runtime/negotiation/tables/process_sets.h"
#include "runtime/negotiation/tables/response_cache.h"
#include "runtime/negotiation/tables/tensor_table.h"

namespace dabke::negotiation {

inline constexpr Rank kRootRank = 0;

struct MachineOptions {
  Rank rank = 0;
  std::shared_ptr<const Topology> topology;  // shared: equal on every rank
  bool duplicates_are_errors = false;
  Duration stall_check{};                      // zero: off
  Duration stall_shutdown{};                   // zero: never
  bool gives_stacks = false;                   // StackAction is answered
  ProcessOf process_of;                        // called for neighbours in the tree; empty: nothing is known
  std::vector<std::vector<Rank>> static_sets;  // ids from 1 on
  FirstSets first_sets;                        // besides these, of an epoch of an elastic job
  DeviceTypes serves;  // with which it can take part once it has joined; the host always
  Sequencer::Options sequencer;
};

/// Ranks that have shut down.
struct Departure {
  std::string who;  // "rank 2 on host-b, and then rank 0 on host-a"
  TimePoint at{};   // when this rank learned of the first
};

struct NegotiationState {
  explicit NegotiationState(MachineOptions from);
  NegotiationState(const NegotiationState&) = delete;
  NegotiationState& operator=(const NegotiationState&) = delete;

  bool is_root() const { return sequencer != nullptr; }
  /// The changes that an operation of this set carries. Only what all ranks run carries them.
  std::uint64_t changes_for(ProcessSetId set) const { return set == kWorldSet ? changes : 0; }
  Rank parent() const { return options.topology->parent(options.rank); }
  const std::vector<Rank>& children() const { return options.topology->children(options.rank); }
  /// "rank 3 on host-b".
  std::string who(Rank rank) const { return options.topology->name(rank); }
  /// Makes the set, if it is that of a pair which this rank meets for the first time. Called before anything
  /// about a set is looked up that another rank or the program has named.
  void meet(ProcessSetId set) {
    if (is_pair(set)) meet_pair(set);
  }
  /// True if this rank is in the set.
  bool takes_part_in(ProcessSetId set) const { return sets.contains(set, options.rank); }
  /// True if the rank has shut down, by an order.
  bool has_left(Rank rank) const { return left[static_cast<std::size_t>(rank)]; }

  struct Join {
    Token token;
    TimePoint moved_at;  // when join was called, or when something of the set was last ordered
  };

  const MachineOptions options;
  Deadlines deadlines;                  // of the roles; none is set once the negotiation is over
  DeviceTypes serves = options.serves;  // until this rank has joined
  ProcessSets sets;
  ResponseCache cache;
  TensorTable tensors{cache};
  Collector collector;
  LearnedBatches learned;
  IncompleteGroups groups;
  std::unique_ptr<Sequencer> sequencer;  // on the root; null elsewhere
  std::map<ProcessSetId, Join> joins;    // pending on this rank
  std::uint64_t last_order = 0;          // the number of the last order applied
  std::uint64_t changes = 0;             // of the job's hosts, announced by an order; 0: none in this epoch
  std::vector<bool> left;
  std::vector<TimePoint> left_at;  // when this rank learned of the departure
  Rank first_left = -1;            // the others could not go on without it, so they left as well
  /// The departure that ended the job for this rank. Empty if the job goes on, has failed, or this rank left
  /// it.
  Departure ended_by;
  bool over = false;    // nothing more is negotiated
  bool failed = false;  // over, and the job has failed
  Status cause;         // the error of everything that is submitted after the end

 private:
  void meet_pair(ProcessSetId pair);
};

/// Returns what this rank and the root disagree in, while no message is in flight; empty if nothing. For
/// tests.
std::string difference_in_tables(const NegotiationState& mine, const NegotiationState& of_root);

}  // namespace dabke::negotiation
