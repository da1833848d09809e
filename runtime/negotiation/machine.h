// The negotiation of one rank: events in, actions out.
//
// Pure: no threads, sockets or clocks; so one process can run thousands of these under a seeded scheduler.
// The ranks form a tree (topology.h). Every message goes to a neighbour in it.
//   1. submit(): the name is announced, unless one of its name is still pending here; then it queues.
//      Announced is a slot where the signature is known, else the signature itself.
//   2. What is ready in all of a rank's subtree goes up (collector.h). The root's Sequencer makes orders of
//      it.
//   3. Orders go down, to the subtrees that they concern; each rank runs its projection of the one sequence.
//      The oldest request of the name leaves the queue and becomes part of an ExecuteAction (or completes at
//      once, where no data moves); the next of its name is announced.
//   4. Whoever learns of a failure tells all its neighbours. The first cause ends everything: each pending
//      token completes exactly once, later ones at once.
// A rank that shuts down takes those with it that report through it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/negotiation/incomplete_groups.h"
#include "runtime/negotiation/inquiry.h"
#include "runtime/negotiation/learned_batches.h"
#include "runtime/negotiation/sequencer.h"
#include "runtime/negotiation/stall_log.h"

namespace dabke {

/// A request that all ranks run now. `token` is none on a rank that has joined: it takes part with neutral data.
struct OrderedRequest {
  std::uint64_t number = 0;
  Token token = Token::none;
  RequestRef agreed;   // the same on every rank
  RequestRef request;  // this rank's own; on a joined rank the others', with no rows where the first
                       // dimension is free
  int contributors = 0;
};
/// Where one tensor of an ExecuteAction travels.
struct BatchedTensor {
  std::uint32_t batch;
  std::uint32_t request;  // index in `requests`
  std::uint32_t tensor;   // the tensor's index in the request
};

struct SendAction {
  Rank peer;
  std::shared_ptr<const std::vector<std::byte>> message;
};
/// Equal on every rank of a process set as far as that set's requests go, batches and their order included:
/// the root has decided them, because a rank that planned from what it sees would plan from what others do
/// not see.
struct ExecuteAction {
  std::vector<OrderedRequest> requests;
  std::vector<BatchedTensor> tensors;  // those of a batch are neighbours, and batches lie as they run
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
/// What this rank waits for.
struct Snapshot {
  enum class State { announced, kept_back, queued };
  struct Pending {
    Token token;
    RequestRef request;
    State state;
  };
  std::uint64_t last_order = 0;
  struct Group {  // some of its members are still to come
    ProcessSetId process_set;
    std::string name;
    CollectiveKind kind;
    std::string members;  // "2 of 3 members of group 'g': 'a', 'b'"
    TimePoint since;
  };
  std::vector<Pending> pending;
  std::vector<Group> groups;
  std::map<ProcessSetId, std::vector<Rank>> sets;  // that these name
};
/// This rank is to write down what it has been doing; comes before the tokens of `snapshot` complete.
struct DumpAction {
  std::string reason;
  std::uint64_t incident = 0;  // equal on all ranks
  bool job_fails = false;      // and that is the reason
  bool asked = false;          // somebody wants it, and not a warning
  Snapshot snapshot;
};
/// The members of this group that have come fail; it was incomplete, so the machine had no token of it.
struct FailGroupAction {
  ProcessSetId process_set;
  std::string group;
  Status status;
};
/// Asks where this rank's threads are; give_stack() answers. No thread is to be disturbed for it.
struct StackAction {};
/// The negotiation is over; the actions that follow complete everything that was pending.
/// `cause` is ok after a clean goodbye; otherwise runs in flight are to be aborted with it. A failure during
/// the last runs after a clean goodbye comes as a second OverAction.
struct OverAction {
  Status cause;
};
using Action = std::variant<SendAction, ExecuteAction, CompleteAction, ProcessSetAction, WarnAction,
                            DumpAction, StackAction, OverAction, FailGroupAction>;

class Machine {
 public:
  struct Options {
    Rank rank = 0;
    std::shared_ptr<const Topology> topology;  // shared: it is the same on every rank
    bool duplicates_are_errors = false;
    Duration stall_check{};                      // zero: off
    Duration stall_shutdown{};                   // zero: never
    bool gives_stacks = false;                   // StackAction is answered
    ProcessOf process_of;                        // asked for neighbours in the tree; empty: nothing is known
    std::vector<std::vector<Rank>> static_sets;  // ids from 1 on
    Sequencer::Options sequencer;
  };
  static constexpr Rank kRoot = 0;
  /// A rank with nothing to report says what it has seen when so many slots were evicted since its last word:
  /// its parent remembers them for it.
  static constexpr std::uint64_t kMostUntold = 256;

  /// Below this rank (itself included) a name became ready; what the root sees, for the timeline.
  struct Readiness {
    std::string name;
    CollectiveKind kind;
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

  explicit Machine(Options options);

  void submit(Token token, RequestRef request, TimePoint now);
  /// A member of a group has come; the last of them comes through here too, before the whole group's
  /// submit(). `group_size` in tensors. Not ok: it fails, and does not count.
  Status submit_member(const RequestRef& member, const std::string& group, std::uint32_t group_size,
                       TimePoint now);
  /// A thread waits for what has this key: nobody is to keep it back.
  void want(ProcessSetId set, const std::string& name, TimePoint now);
  void message_from(Rank peer, std::span<const std::byte> message, TimePoint now);
  void peer_lost(Rank peer, const Status& cause);
  void set_data_plane_busy(bool busy);
  void tick(TimePoint now);
  TimePoint next_tick() const;
  /// This rank shuts down: OverAction follows when the root has taken it out of the sequence, or at once when
  /// the negotiation is over anyway.
  void leave(TimePoint now);
  /// Ends the job on every rank with this cause.
  void abort(const Status& cause);
  enum class Dumped { as_warned, as_asked };
  /// Every rank is to write a dump, unless all have a moment ago.
  void ask_for_dumps(const std::string& reason, Dumped why, TimePoint now);
  /// A batch that this rank runs.
  struct Running {
    std::uint64_t number = 0;  // its order's
    ProcessSetId process_set = kWorldSet;
    std::string what;  // "allreduce 'x' and 3 more (order 4)"
    TimePoint since{};
  };
  /// It has taken long; again after a while, as long as it does.
  void note_long_run(const Running& running, TimePoint now);
  /// What the answers that wait for give_stack() are to say.
  void note_running(const Running& running, TimePoint now);
  /// The answer to every StackAction until now.
  void give_stack(const std::string& text, TimePoint now);
  Snapshot snapshot() const;
  /// Why it ended, once it has.
  const Status& cause() const { return cause_; }

  /// What is to be done, in this order. Announces what was submitted since the last call.
  std::vector<Action> take_actions(TimePoint now);
  /// Root only. `recording`: 0 for none, else a number of its own for each timeline. What somebody has
  /// reported already stays out of it, so that nothing is seen without its beginning.
  void record_readiness(std::uint64_t recording) { recording_ = is_root() ? recording : 0; }
  std::vector<Readiness> take_readiness() { return std::exchange(readiness_, {}); }
  std::vector<Lateness> take_lateness() { return std::exchange(lateness_, {}); }

  const ProcessSets& sets() const { return sets_; }
  bool is_over() const { return over_; }
  /// Whether something is ready that will be ordered when the data plane has less to do.
  bool holds_back() const { return sequencer_ && !over_ && sequencer_->holds_back(); }
  /// Whether waiting threads are to be announced by want().
  bool keeps_back() const { return learned_.any(); }
  struct CacheCounts {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
  };
  const CacheCounts& cache_counts() const { return cache_counts_; }
  /// How many slots and names that are gone are still known, because reports of them may be under way. For
  /// tests.
  std::size_t remembered() const { return cache_.count_evicted() + voids_.size(); }
  /// What this rank and the root disagree in, when no message is under way; empty when nothing. For tests.
  std::string difference_in_tables(const Machine& root) const;

 private:
  bool is_root() const { return options_.rank == kRoot; }
  Rank parent() const { return options_.topology->parent(options_.rank); }
  const std::vector<Rank>& children() const { return options_.topology->children(options_.rank); }
  Status check(const Request& request) const;

  // ---- up
  void join(Token token, const Request& request, TimePoint now);
  void announce_join(ProcessSetId set, TimePoint now);
  void note_wanted(Slot slot, TimePoint now);
  void note_awaited(TensorEntry& entry, TimePoint now);
  void let_go(TensorEntry& entry, TimePoint now);
  void note_join(int reporter, const JoinReport& join, TimePoint now);
  void announce(TensorEntry& entry, TimePoint now);
  void report_slots(const std::vector<Slot>& slots, TimePoint now);
  void report_slot(TensorEntry& entry, int reporter, TimePoint now);
  void report_in_full(TensorEntry& entry, int reporter, const Report& report, TimePoint now);
  void took(TensorEntry& entry, Collector::Took took, int reporter, TimePoint now);
  void note_readiness(TensorEntry& entry, int reporter, bool complete);
  void from_child(int reporter, const ReadyMessage& message, TimePoint now);
  void slot_from_child(int reporter, Slot slot, std::uint64_t seen, TimePoint now);
  bool is_void(ProcessSetId set, const std::string& name, std::uint64_t seen) const;
  void note_seen(int reporter, std::uint64_t seen);
  bool has_reporters_below(ProcessSetId set) const;
  std::uint64_t seen_by_all(ProcessSetId set) const;
  void note_late(Rank rank, Duration by, CollectiveKind kind);
  CollectiveKind kind_of(const ReadyMessage& message) const;
  /// The request of a name that somebody has reported.
  static const Request& request_of(const TensorEntry& entry);
  void flush_up();

  // ---- down
  void broadcast_orders(TimePoint now);
  void pass_down(const OrdersMessage& message, std::shared_ptr<const std::vector<std::byte>> bytes);
  bool concerns(const Order& order, int reporter) const;
  void apply(OrdersMessage message, TimePoint now);
  void apply(Order& order, ExecuteAction& execute, TimePoint now);
  void execute_until_here(ExecuteAction& execute);
  void run(Order& order, TensorEntry& entry, ExecuteAction& execute, TimePoint now);
  void complete_order(Order& order, TensorEntry& entry, TimePoint now);
  void apply_error(const Order& order, TimePoint now);
  void apply_evict(const Order& order, TimePoint now);
  void apply_learned(const Order& order, TimePoint now);
  void apply_release(const Order& order, TimePoint now);
  void apply_left(Rank rank);
  void note_departure(Rank rank);
  Submitted take_front(TensorEntry& entry, TimePoint now);

  // ---- stalls
  void look_for_stalls(TimePoint now);
  void inquire(Inquiry inquiry, TimePoint now);
  void answer(const InquiryMessage& message, TimePoint now);
  void give_answer(AnswerMessage answer);
  void judge_inquiries(TimePoint now);
  bool is_told_of(const Inquiry& inquiry, TimePoint now) const;
  void judge(const Inquiry& inquiry, TimePoint now);
  void dump(const DumpMessage& message);
  Duration patience() const;
  bool is_to_fail(Duration age) const;
  TimePoint next_look(TimePoint since, TimePoint now) const;
  void note_wait(CollectiveKind kind, TimePoint now) {
    if (next_wait_check_ != kNever || options_.stall_check <= Duration::zero()) return;
    if (!is_root() || kind == CollectiveKind::join) next_wait_check_ = now + patience();
  }
  void note_progress(ProcessSetId set, TimePoint now);
  void look_for_long_waits(TimePoint now);
  void tell(const NoticeMessage& notice, TimePoint now);
  void heed(const NoticeMessage& notice, TimePoint now);
  void parent_is_heard();
  void parent_is_silent(TimePoint now);
  std::string process_of(Rank rank) const;

  // ---- groups that wait for members
  TimePoint next_group_check(const IncompleteGroup& group, TimePoint now) const;
  void look_for_incomplete_groups(TimePoint now);
  int stage_of(Duration age) const;
  void inquire_group(const GroupNoticeMessage& notice, TimePoint now);
  void answer_group(const GroupInquiryMessage& message, TimePoint now);
  void take_group_answer(GroupAnswerMessage answer);
  void judge_group_inquiries(TimePoint now);
  void judge(const GroupInquiry& inquiry, TimePoint now);
  void forget_group_inquiry(const TensorEntry& entry);
  void fail_incomplete_groups(std::optional<ProcessSetId> set, const Status& cause);
  void fail_incomplete_group(ProcessSetId set, const std::string& key, const Status& why);

  // ---- ends
  void fail(const Status& cause, Rank except);
  void fail_set(ProcessSetId set, const Status& cause);
  void fail_everything(const Status& cause, const Status& over);
  void fail_last_runs(const Status& cause);
  void complete(Token token, Status status, std::int64_t value = 0);

  void send(Rank peer, const Message& message);
  void send_bytes(Rank peer, std::shared_ptr<const std::vector<std::byte>> bytes);
  std::string who(Rank rank) const { return options_.topology->name(rank); }

  Options options_;
  ProcessSets sets_;
  ResponseCache cache_;
  TensorTable tensors_{cache_};
  Collector collector_;
  LearnedBatches learned_;
  std::unique_ptr<Sequencer> sequencer_;  // the root's; null elsewhere
  ReadyMessage up_;
  std::vector<Action> actions_;

  struct Join {
    Token token;
    TimePoint moved_at;  // when it was called, or something of the set was last ordered
  };
  std::map<ProcessSetId, Join> joins_;        // pending here
  std::map<ProcessSetId, Rank> last_joined_;  // below this rank
  std::uint64_t last_order_ = 0;
  std::vector<std::uint64_t> seen_;  // by reporter: the last order each child knows
  std::uint64_t untold_ = 0;  // since the last message up: orders for which the parent remembers something
  struct Void {
    ProcessSetId set;
    std::string name;
    std::uint64_t until;
  };
  std::vector<Void> voids_;

  IncompleteGroups groups_;                    // here
  std::vector<GroupInquiry> group_inquiries_;  // the root's
  struct GroupHistory {
    TimePoint inquired{};
    TimePoint warned{};
    Duration age{};
  };
  std::map<IncompleteGroups::Key, GroupHistory> group_history_;  // the root's

  std::vector<Inquiry> inquiries_;  // the root's
  std::uint32_t next_inquiry_ = 1;
  std::vector<AnswerMessage> without_stack_;  // answers of this rank that wait for one
  TimePoint stack_deadline_ = kNever;
  std::uint64_t incidents_ = 0;    // the root's: dumps that it has asked for
  std::vector<DumpAction> dumps_;  // asked for since the last take_actions()
  TimePoint next_dump_{};
  TimePoint next_stall_dump_{};
  StallLog stall_log_;
  TimePoint next_wait_check_ = kNever;  // when to look at what this rank itself waits for
  TimePoint word_by_ = kNever;          // when word is due from the parent, which has been told `unheard_`
  NoticeMessage unheard_;               // the longest wait that it was told of
  TimePoint unheard_at_{};
  TimePoint next_check_ = kNever;
  TimePoint last_submit_{};
  TimePoint late_until_{};

  std::uint64_t recording_ = 0;
  std::vector<Readiness> readiness_;
  std::vector<Lateness> lateness_;
  CacheCounts cache_counts_;

  std::vector<bool> left_;
  std::vector<bool> peer_gone_;
  std::set<Rank> goodbyes_;  // the root's
  bool leaving_ = false;
  bool over_ = false;
  bool failed_ = false;
  Status cause_;  // why everything submitted after the end fails
};

}  // namespace dabke
