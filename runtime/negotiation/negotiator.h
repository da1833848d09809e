// The negotiation of one rank: events in, actions out.
//
// Pure: no threads, sockets or clocks; so one process can run thousands of these under a seeded scheduler.
// The ranks form a tree (topology.h). Every message goes to a neighbour in it.
//   1. submit(): the name is announced, unless one of its name is still pending here; then it queues.
//   2. What is ready in all of a rank's subtree goes up (upward_reporter.h). The root's Sequencer makes orders of
//      it.
//   3. Orders go down, to the subtrees that they concern; each rank runs its projection of the one sequence
//      (order_follower.h).
//   4. What takes too long is looked into (stall_inspector.h, group_inspector.h).
//   5. Whoever learns of a failure tells all its neighbours, and everything ends (endings.h).
// A rank that shuts down takes those with it that report through it.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/negotiation/live_statistics.h"
#include "runtime/negotiation/order_follower.h"
#include "runtime/negotiation/stalls/group_inspector.h"
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
  /// A member of a group has come; the last of them comes through here too, before the whole group's
  /// submit(). `group_size` in tensors. Not ok: it fails, and does not count.
  Status submit_member(const RequestRef& member, const std::string& group, std::uint32_t group_size,
                       TimePoint now);
  /// A thread waits for what has this key: nobody is to keep it back.
  void want(ProcessSetId set, const std::string& key, TimePoint now) { reporter_.want(set, key, now); }
  void message_from(Rank peer, std::span<const std::byte> message, TimePoint now);
  void peer_lost(Rank peer, const Status& cause);
  /// Whether the job fails when it is lost: it has not said goodbye.
  bool misses(Rank peer) const {
    return !state_.failed && !state_.has_left(peer) && !goodbyes_.contains(peer);
  }
  /// What this rank can take part with once it has joined; the host always.
  void serve(DeviceTypes types) { state_.serves = types; }
  /// Whether this rank's data plane of this type has enough to do, so that more orders of that type may wait.
  void set_data_plane_busy(DeviceType type, bool busy);
  /// Does what is due.
  void tick(TimePoint now);
  /// When tick() has something to do, or take_actions(); kNever once it is over.
  TimePoint next_tick() const { return state_.deadlines.next(); }
  /// Keeps this row at next_tick(), and its list's next time with it.
  void report_tick_to(Deadline& row) { state_.deadlines.report_to(row); }
  /// This rank shuts down: OverAction follows when the root has taken it out of the sequence, or at once when
  /// the negotiation is over anyway.
  void leave(TimePoint now);
  /// Ends the job on every rank with this cause.
  void abort(const Status& cause) { endings_.abort(cause); }

  /// Every rank is to write a dump, unless all have a moment ago.
  void ask_for_dumps(const std::string& reason, Dumped why, TimePoint now) { dumps_.ask(reason, why, now); }
  /// Root only: every rank is to tell its figures.
  void gather_figures() { live_statistics_.ask(); }
  /// The answer to every FiguresAction until now.
  void give_figures(RankFigures figures, TimePoint now) { live_statistics_.give(std::move(figures), now); }
  /// Root only: the last that each rank has told.
  const std::map<Rank, LiveStatistics::Answer>& figures() const { return live_statistics_.answers(); }
  /// Every rank is to change its timeline, unless one of the changes from the `from`-th on is this one.
  void change_timeline(wire::TimelineChange change, std::uint64_t from, TimePoint now) {
    timelines_.ask(std::move(change), from, now);
  }
  /// Root only: no timeline starts on this path until it is released.
  void hold_timeline(const std::string& path) { timelines_.hold(path); }
  void release_timeline(const std::string& path, TimePoint now) { timelines_.release(path, now); }
  /// It has taken long; again after a while, as long as it does.
  void note_long_run(const Running& running, TimePoint now) { stalls_.note_long_run(running, now); }
  /// What the answers that wait for give_stack() are to say.
  void note_running(const Running& running, TimePoint now) { stalls_.note_running(running, now); }
  /// The answer to every StackAction until now.
  void give_stack(const std::string& text, TimePoint now) { stalls_.give_stack(text, now); }

  /// What is to be done, in this order. Announces what was submitted since the last call.
  std::vector<Action> take_actions(TimePoint now);

  /// Root only. `recording`: 0 for none, else a number of its own for each timeline. What somebody has
  /// reported already stays out of it, so that nothing is seen without its beginning.
  void record_readiness(std::uint64_t recording) {
    reporter_.record_readiness(state_.is_root() ? recording : 0);
  }
  std::vector<Readiness> take_readiness() { return reporter_.take_readiness(); }
  std::vector<Lateness> take_lateness() { return reporter_.take_lateness(); }
  const CacheCounts& cache_counts() const { return reporter_.cache_counts(); }

  const NegotiationState& state() const { return state_; }
  const ProcessSets& sets() const { return state_.sets; }
  bool is_over() const { return state_.over; }
  /// Why it ended, once it has.
  const Status& cause() const { return state_.cause; }
  Snapshot snapshot() const { return snapshot_of(state_); }
  /// Whether something is ready that will be ordered when a data plane has less to do.
  bool defers_orders() const { return orders_here() && state_.sequencer->ready().defers_orders(); }
  /// The same of the data plane of this type.
  bool defers_orders(DeviceType type) const {
    return orders_here() && state_.sequencer->ready().defers_orders(type);
  }
  /// Whether waiting threads are to be announced by want().
  bool has_learned_batches() const { return state_.learned.any(); }
  /// How many slots and names that are gone are still known, because reports of them may be under way. For
  /// tests.
  std::size_t remembered() const { return state_.cache.count_evicted() + reporter_.children().count_void(); }

 private:
  bool orders_here() const { return state_.is_root() && !state_.over; }
  Status check(const Request& request, TimePoint now) const;
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
  UpwardReporter reporter_;
  OrderFollower follower_;
  Deadline orders_due_;      // the root's, that wait for its data plane
  std::set<Rank> goodbyes_;  // the root's
  bool leaving_ = false;
};

}  // namespace dabke::negotiation
