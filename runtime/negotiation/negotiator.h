// The negotiation of one rank: events in, actions out.
//
// Pure: it has no threads, sockets or clocks, so one process can run thousands of these under a seeded
// scheduler. The ranks form a tree (topology.h), and every message goes to a neighbour in the tree.
//   1. submit() announces the name, or queues the request if its name is still pending on this rank.
//   2. What is ready in all of a rank's subtree goes up (upward_reporter.h). The root's Sequencer makes
//      orders of it.
//   3. Orders go down, to the subtrees that they concern. Each rank runs its projection of the one sequence
//      (order_follower.h).
//   4. Waits that take too long are examined (stall_inspector.h, group_inspector.h, sequence_inspector.h).
//   5. A rank that learns of a failure notifies all its neighbours, and everything ends (endings.h).
// A rank that shuts down takes with it the ranks that report through it.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/negotiation/live_statistics.h"
#include "runtime/negotiation/order_follower.h"
#include "runtime/negotiation/sender_search.h"
#include "runtime/negotiation/stalls/group_inspector.h"
#include "runtime/negotiation/stalls/sequence_inspector.h"
#include "runtime/negotiation/stalls/stall_inspector.h"
#include "runtime/negotiation/state/actions.h"
#include "runtime/negotiation/state/dump_requests.h"
#include "runtime/negotiation/state/endings.h"
#include "runtime/negotiation/state/negotiation_state.h"
#include "runtime/negotiation/state/outbox.h"
#include "runtime/negotiation/timeline_requests.h"
#include "runtime/negotiation/upward_reporter.h"

namespace dabke::negotiation {

class Negotiator {
 public:
  using Options = MachineOptions;
  using Readiness = dabke::negotiation::Readiness;
  using Lateness = dabke::negotiation::Lateness;
  using Running = RunningBatch;
  using Dumped = DumpRequests::Why;
  static constexpr Rank kRoot = kRootRank;

  explicit Negotiator(Options options);

  void submit(Token token, RequestRef request, TimePoint now);
  /// Takes a member of a group that has come. The last member also comes through here, before the whole
  /// group's submit(). `group_size` is in tensors. On an error the member fails, and does not count.
  Status submit_member(const RequestRef& member, const std::string& group, std::uint32_t group_size,
                       TimePoint now);
  /// A thread waits for the tensor or group with this key, so no rank may keep it back.
  void want(ProcessSetId set, const std::string& key, TimePoint now) { reporter_.want(set, key, now); }
  void message_from(Rank peer, std::span<const std::byte> message, TimePoint now);
  void peer_lost(Rank peer, const Status& cause);
  /// True if the job fails when this peer is lost: the peer has not sent its goodbye.
  bool misses(Rank peer) const {
    return !state_.failed && !state_.has_left(peer) && !goodbyes_.contains(peer);
  }
  /// Sets the device types with which this rank can take part once it has joined; the host always.
  void serve(DeviceTypes types) { state_.serves = types; }
  /// Sets whether this rank's data plane of this type has enough to do, so that more orders of that type may
  /// wait.
  void set_data_plane_busy(DeviceType type, bool busy);
  /// Does what is due.
  void tick(TimePoint now);
  /// When tick() or take_actions() has something to do; kNever once the negotiation is over.
  TimePoint next_tick() const { return state_.deadlines.next(); }
  /// Keeps `row` at next_tick(), and with it the next time of its list.
  void report_tick_to(Deadline& row) { state_.deadlines.report_to(row); }
  /// This rank shuts down. OverAction follows when the root has taken the rank out of the sequence, or at
  /// once if the negotiation is over.
  void leave(TimePoint now);
  /// Ends the job on every rank with this cause.
  void abort(const Status& cause) { endings_.abort(cause); }

  /// Asks every rank to write a dump, unless all have written one a moment ago.
  void ask_for_dumps(const std::string& reason, Dumped why, TimePoint now) { dumps_.ask(reason, why, now); }
  /// Root only: asks every rank to send its figures.
  void gather_figures() { live_statistics_.ask(); }
  /// Answers every FiguresAction until now.
  void give_figures(RankFigures figures, TimePoint now) { live_statistics_.give(std::move(figures), now); }
  /// Root only: the last figures that each rank has sent.
  const std::map<Rank, LiveStatistics::Answer>& figures() const { return live_statistics_.answers(); }
  /// Asks every rank to change its timeline, unless one of the changes from the `from`-th on is this one.
  void change_timeline(wire::TimelineChange change, std::uint64_t from, TimePoint now) {
    timelines_.ask(std::move(change), from, now);
  }
  /// Root only: so many changes of the job's hosts have been announced, counted through the whole job. All
  /// ranks get the number with the next operation of the world.
  void announce_change(std::uint64_t changes) {
    if (orders_here()) state_.sequencer->announce_change(changes);
  }
  /// Root only: no timeline starts on this path until it is released.
  void hold_timeline(const std::string& path) { timelines_.hold(path); }
  void release_timeline(const std::string& path, TimePoint now) { timelines_.release(path, now); }
  /// Notes a run that has taken long. Called again after a while, as long as the run lasts.
  void note_long_run(const Running& running, TimePoint now) { stalls_.note_long_run(running, now); }
  /// Sets the running batch in the answers that wait for give_stack().
  void note_running(const Running& running, TimePoint now) { stalls_.note_running(running, now); }
  /// Answers every StackAction up to this number. What was asked later waits for a newer answer.
  void give_stack(std::uint64_t number, const std::string& text, TimePoint now) {
    stalls_.give_stack(number, text, now);
    sequences_.give_place(number, text, now);
  }

  /// Returns what is to be done, in this order. Announces what was submitted since the last call.
  std::vector<Action> take_actions(TimePoint now);

  /// Root only. `recording` is 0 for none, otherwise a different number for each timeline. Names that a rank
  /// has reported already stay out of it, so that nothing is recorded without its beginning.
  void record_readiness(std::uint64_t recording) {
    reporter_.record_readiness(state_.is_root() ? recording : 0);
  }
  std::vector<Readiness> take_readiness() { return reporter_.take_readiness(); }
  std::vector<Lateness> take_lateness() { return reporter_.take_lateness(); }
  const CacheCounts& cache_counts() const { return reporter_.cache_counts(); }

  const NegotiationState& state() const { return state_; }
  const ProcessSets& sets() const { return state_.sets; }
  bool is_over() const { return state_.over; }
  /// The cause of the end, once the negotiation has ended.
  const Status& cause() const { return state_.cause; }
  Snapshot snapshot() const { return snapshot_of(state_); }
  /// True if an order is ready and waits until a data plane has less to do.
  bool defers_orders() const { return orders_here() && state_.sequencer->ready().defers_orders(); }
  /// The same for the data plane of this type.
  bool defers_orders(DeviceType type) const {
    return orders_here() && state_.sequencer->ready().defers_orders(type);
  }
  /// True if waiting threads are to be announced by want().
  bool has_learned_batches() const { return state_.learned.any(); }
  /// The number of former slots and names that are still remembered, because reports of them may be in
  /// flight. For tests.
  std::size_t remembered() const { return state_.cache.count_evicted() + reporter_.children().count_void(); }

 private:
  bool orders_here() const { return state_.is_root() && !state_.over; }
  Status check(const Request& request, TimePoint now) const;
  void enter(TensorEntry& entry, Token token, RequestRef request, TimePoint now);
  void join(Token token, const Request& request, TimePoint now);
  void hear_parent(wire::Message& message, std::span<const std::byte> bytes, TimePoint now);
  void hear_child(Rank child, wire::Message& message, TimePoint now);
  void hear_as_root(wire::Message& message, TimePoint now);

  NegotiationState state_;
  Outbox outbox_;
  Endings endings_;
  DumpRequests dumps_;
  TimelineRequests timelines_;
  LiveStatistics live_statistics_;
  StallInspector stalls_;
  GroupInspector groups_;
  SequenceInspector sequences_;
  SenderSearch senders_;
  UpwardReporter reporter_;
  OrderFollower follower_;
  Deadline orders_due_;      // the root's orders that wait for its data plane
  std::set<Rank> goodbyes_;  // on the root
  bool leaving_ = false;
};

}  // namespace dabke::negotiation
