// The negotiation of one rank: events in, actions out.
//
// Pure: no threads, sockets or clocks; so one process can run thousands of these under a seeded scheduler.
// The plain form: every rank reports to rank 0, whose Sequencer calls the orders.
//   1. submit(): the request is announced to the root, unless one of its name is still pending here; then it
//   queues.
//   2. An order comes back: the oldest request of that name leaves the queue and becomes part of an
//   ExecuteAction (or
//      completes at once, where no data moves); the next of its name is announced.
//   3. The first cause of failure ends everything: each pending token completes exactly once, later ones at
//   once.
// A token stands for the runtime's operation; 0 is never a token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/negotiation/sequencer.h"

namespace dabke {

using Token = std::uint64_t;

/// A request that all ranks run now. `token` is 0 on a rank that has joined: it takes part with neutral data.
struct OrderedRequest {
  std::uint64_t number = 0;
  Token token = 0;
  Request agreed;   // the same on every rank: what batches are planned from
  Request request;  // this rank's own; on a joined rank the others', with no rows where the first dimension
                    // is free
  int contributors = 0;
};

struct SendAction {
  Rank peer;
  std::vector<std::byte> message;
};
/// Equal on every rank of a process set as far as that set's requests go.
struct ExecuteAction {
  std::int64_t fusion_threshold = 0;
  bool group_fusion = true;
  std::vector<OrderedRequest> requests;
};
struct CompleteAction {
  Token token;
  Status status;
  std::int64_t value = 0;  // join: the last rank; add_process_set: the id
};
struct ProcessSetAction {
  ProcessSetId id;
  std::vector<Rank> ranks;  // empty: removed
};
struct WarnAction {
  std::string text;
};
/// The negotiation is over; everything that was pending has been completed by actions before this one.
/// `cause` is ok after a clean goodbye; otherwise runs in flight are to be aborted with it. A failure during
/// the last runs after a clean goodbye comes as a second OverAction.
struct OverAction {
  Status cause;
};
using Action =
    std::variant<SendAction, ExecuteAction, CompleteAction, ProcessSetAction, WarnAction, OverAction>;

class Machine {
 public:
  struct Options {
    Rank rank = 0;
    bool duplicates_are_errors = false;
    std::int64_t fusion_threshold = 0;
    bool group_fusion = true;
    Sequencer::Options sequencer;
  };
  static constexpr Rank kRoot = 0;

  explicit Machine(Options options);

  void submit(Token token, Request request, TimePoint now);
  void message_from(Rank peer, std::span<const std::byte> message, TimePoint now);
  void peer_lost(Rank peer, const Status& cause);
  void set_data_plane_busy(bool busy);
  void tick(TimePoint now);
  TimePoint next_tick() const;
  /// This rank shuts down: OverAction follows when the root has taken it out of the sequence, or at once when
  /// the negotiation is over anyway.
  void leave();
  /// Ends the job on every rank with this cause.
  void abort(const Status& cause);

  /// What is to be done, in this order. Announces what was submitted since the last call.
  std::vector<Action> take_actions(TimePoint now);
  /// Root only; for the timeline.
  std::vector<Sequencer::Readiness> take_readiness();

  const ProcessSets& sets() const { return sets_; }
  bool is_over() const { return over_; }
  /// Whether something is ready that will be ordered when the data plane has less to do.
  bool holds_back() const { return sequencer_ && !over_ && sequencer_->holds_back(); }

 private:
  struct Waiting {
    Token token;
    Request request;
  };
  using Key = std::pair<ProcessSetId, std::string>;

  bool is_root() const { return options_.rank == kRoot; }
  Status check(const Request& request) const;
  void announce(Request request, TimePoint now);
  void flush_announcements();
  void send(Rank peer, const Message& message);
  void note_departure(const Order& order);
  void broadcast_orders(TimePoint now);
  void apply(OrdersMessage message, TimePoint now);
  void apply(Order& order, ExecuteAction& execute, TimePoint now);
  void run(Order& order, ExecuteAction& execute, TimePoint now);
  void apply_left(Rank rank);
  Waiting take_front(const Key& key, TimePoint now);
  void fail_set(ProcessSetId set, const Status& cause);
  void complete(Token token, Status status, std::int64_t value = 0);
  void fail_everything(const Status& cause, const Status& over);
  void fail_last_runs(const Status& cause);
  std::string who(Rank rank) const;

  Options options_;
  ProcessSets sets_;
  std::unique_ptr<Sequencer> sequencer_;        // on the root
  std::map<Key, std::deque<Waiting>> waiting_;  // the front one is announced
  std::vector<Request> announcements_;
  std::vector<Action> actions_;
  std::vector<bool> left_;
  std::vector<bool> peer_gone_;
  std::vector<ProcessSetId> joined_;  // sets in which this rank's join is pending
  bool leaving_ = false;
  bool over_ = false;
  bool failed_ = false;
  Status cause_;  // of everything submitted after the end
};

}  // namespace dabke
