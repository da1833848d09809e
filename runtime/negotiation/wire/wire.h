// The negotiation's messages and their bytes.
//
// Layout: everything is little-endian, without padding. Numbers have their natural width or, where this file
// states so, are varints: seven bits a byte, the lowest first, the top bit set on all but the last byte. Text
// and lists begin with a varint count. A message is one byte, its index in Message, and the fields of its
// struct in order of declaration, except:
//   - Slots: one byte of form, then
//       0, runs: a varint count of runs; of each a varint first slot and a varint length. Keeps the order.
//       1, bitmap: the varint first slot, a varint count of bytes, and the bytes; slot `first + i` is bit i%8
//       of byte i/8.
//     The writer takes the shorter.
//   - Orders: one byte of form, then
//       0, a run of cached orders: varints of the first number, the first slot and the count. Numbers and
//          slots count up together, and every rank of the set contributes. Then a varint, which is twice
//          the first order's batch, plus 1 if each order has the batch after the previous one. Without the
//          1 all orders have that batch.
//       1, one order in full.
//     A byte of form 2 ends the list.
// The links refuse peers of another kWireVersion, so a decoder receives only its own version. Bytes that do
// not fit are an error, and never misread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/rank_figures.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"
#include "runtime/call/request.h"

namespace dabke::wire {

/// Represents a signature that all ranks of its process set have. Never used twice in one init: the low half
/// is its index in every rank's cache, and the high half counts how often that index was given.
using Slot = std::uint64_t;
using SlotIndex = std::size_t;
inline constexpr Slot kNoSlot = ~Slot{0};
constexpr SlotIndex index_of(Slot slot) { return slot & 0xffffffffU; }
/// Slots in use at one time.
inline constexpr std::uint64_t kMostCacheSlots = kLargestCache;
/// The most slots in all lists of a message together. A message with more is refused.
inline constexpr std::uint64_t kMostSlotsInMessage = 4 * kMostCacheSlots;
/// A message orders a slot by itself at most once. An order takes far more memory than a slot, and a few
/// bytes can represent all of them.
inline constexpr std::uint64_t kMostCachedOrdersInMessage = kMostCacheSlots;

/// One signature under which ranks submitted a name.
struct RequestVariant {
  RequestRef request;
  std::vector<Rank> ranks;  // ascending; empty: all that the report represents
};

/// A name became ready in a whole subtree. In full, because it has no slot yet, has changed, or ranks have
/// joined.
struct Report {
  std::vector<RequestVariant> variants;  // at least one; more mean a mismatch
  std::int32_t contributors = 0;         // ranks that submitted it; fewer than all if some have joined
  bool root_absent = false;              // broadcast: its root rank is among those that have joined
  std::vector<Rank> joined = {};  // ranks that do not submit it; if it moves data and is not an allreduce
};

/// A rank that has joined and has no device of this type.
struct NotServed {
  DeviceType type = DeviceType::host;
  Rank rank = -1;
};

struct JoinReport {
  ProcessSetId process_set = kWorldSet;
  /// The subtree's last rank in the set to join; all of them have joined. -1: only some have, and the report
  /// is of `not_served` alone. That part counts before the message's other reports.
  Rank last = -1;
  /// Names of which some of these ranks had submitted several before they joined, and have not reported the
  /// last. For these names such ranks count as if they had not joined. A later report of the same set
  /// replaces this list.
  std::vector<std::string> unfinished;
  std::vector<NotServed> not_served;  // at most one rank for each device type, the lowest known
};

/// Up: names that became ready in all of the sender's subtree.
struct ReadyMessage {
  std::uint64_t seen = 0;     // varint: the number of the last order that the sender has seen
  std::vector<Slot> slots;    // Slots
  Rank late_rank = -1;        // varint, plus 1: the rank that kept the others waiting longest, and
  std::uint32_t late_us = 0;  // varint: how long
  std::vector<Slot> wanted;   // Slots: a thread waits for these now, and its rank had kept them back
  std::vector<Slot> awaited;  // Slots: a thread waits for these, and its rank has reported them
  std::vector<Report> reports;
  std::vector<JoinReport> joins;  // they count after all else, except `not_served`
};

/// Up: this rank submits nothing more.
struct GoodbyeMessage {
  Rank rank = -1;
};

/// In every direction: the job is over, because of this.
struct FailMessage {
  Code code = Code::aborted;
  std::string text;
};

/// Tensors that become ready together in every step, and are reported and run together.
struct LearnedBatch {
  std::uint32_t hold_us = 0;  // longest time that a rank may keep the first of them back
  std::vector<Slot> slots;
};

/// The timeline starts or stops.
struct TimelineChange {
  bool starts = false;
  bool marks_cycles = false;  // of a start
  std::string path;           // of a start
  bool operator==(const TimelineChange&) const = default;
};

/// One element of the job's one sequence.
struct Order {
  enum class Kind : std::uint8_t {
    run,
    error,     // the name fails on every rank
    left,      // `rank` has shut down, and with it all ranks that report through it
    evict,     // the slot has no meaning from here on
    learned,   // `batches` from here on; none: forget them
    release,   // report what is kept back; with `slot`, only what is kept back for it
    timeline,  // the timeline starts or stops here
    change,    // `changes` of the job's hosts have been announced; orders of the world from here on carry it
  };
  std::uint64_t number = 0;
  Kind kind = Kind::run;
  Slot slot = kNoSlot;  // run: the slot of its signature, new if `request` is set; release: see there
  RequestRef request;   // run: null if the slot is enough; error: the process set, and the key as name
  std::int32_t contributors =
      0;                      // run: ranks whose data counts; the divisor of an average; 0: all of the set
  Rank rank = -1;             // left: the rank that left; join: the last rank to join
  ProcessSetId new_set = -1;  // adding a set: its id; removing: the id of the set that ends by it, or -1
  Code error = Code::ok;      // error
  std::string text;           // error; timeline: the path
  bool forced = false;        // error: not all ranks had reported; reports from before it are void
  // timeline, as in a TimelineChange. They travel only with that kind.
  bool starts = false;
  bool marks_cycles = false;
  std::uint64_t changes =
      0;  // change: the number, counted through the whole job. Travels only with that kind
  /// run that moves data: tensors of one message with equal numbers here travel together. The batches of a
  /// message run in the order of their numbers, and none continues in another message.
  std::uint32_t batch = 0;
  std::vector<std::uint32_t> batch_by_tensor;  // for a group that is in several batches; otherwise empty
  std::vector<LearnedBatch> batches;
};

/// True if the order travels in a run of such orders. Nearly all orders do in a job that repeats its steps.
inline bool is_plain_cached(const Order& order) {
  return order.kind == Order::Kind::run && !order.request && order.contributors == 0 &&
         order.batch_by_tensor.empty();
}

/// True if an order of this kind that moves no data ends the batches of the orders before it.
constexpr bool ends_batches(Order::Kind kind) {
  return kind == Order::Kind::run || kind == Order::Kind::error || kind == Order::Kind::left ||
         kind == Order::Kind::timeline;
}

/// Down: the orders, in sequence, that concern the receiver's subtree.
struct OrdersMessage {
  std::vector<Order> orders;
};

/// The subject of a wait.
enum class StallSubject : std::uint8_t {
  tensor,  // a name that not all ranks have submitted
  join,    // dabke_join
  batch,   // a run that does not end; `number` is its order's
};

/// Down: asks what the receivers have of this. To the ranks of the set that have not reported to the root, or
/// to all ranks.
struct InquiryMessage {
  std::uint32_t id = 0;
  bool everybody = false;
  StallSubject subject = StallSubject::tensor;
  ProcessSetId process_set = kWorldSet;
  std::string name;  // its key
};

/// Up: one rank's answer.
struct AnswerMessage {
  std::uint32_t id = 0;
  Rank rank = -1;
  std::uint64_t last_order = 0;
  std::uint64_t idle_ms = 0;            // since its last submission; 0: it has submitted nothing
  std::vector<ProcessSetId> sets;       // in which it waits for this name
  std::vector<std::string> signatures;  // of the name, in each of these sets
  std::vector<ProcessSetId> joined;     // in which it submits nothing until the join completes
  std::vector<std::string> instead;     // some of the other things that it waits for, in words
  std::uint32_t instead_count = 0;      // the number of all of them
  std::string inside;                   // the batch that it runs, in words; empty: none
  std::uint64_t inside_number = 0;      // its order's
  std::uint64_t inside_ms = 0;          // since it began
  std::string stack;                    // of its training threads, if it can be had
};

/// Up: a rank of the sender's subtree waits for this; the root might not have it.
struct NoticeMessage {
  StallSubject subject = StallSubject::tensor;
  ProcessSetId process_set = kWorldSet;
  std::uint64_t number = 0;
  std::string name;  // its key
  std::uint64_t age_ms = 0;
  bool suspect = false;  // not for long yet, but it may have been submitted to another process set
};

/// Up: every rank is to write a dump, because of this. Down, from the root: this rank is to write one now.
struct DumpMessage {
  std::uint64_t incident = 0;  // down: counts the dumps
  bool asked = false;          // a user wants it, not a warning: stacks may be taken by signals
  std::string reason;
};

/// Up: a group has waited for members on this rank for a while.
struct GroupNoticeMessage {
  ProcessSetId process_set = kWorldSet;
  std::string group;
  std::uint64_t age_ms = 0;
};

/// Down, to the ranks of the set: asks what they have of this group.
struct GroupInquiryMessage {
  std::uint32_t id = 0;
  ProcessSetId process_set = kWorldSet;
  std::string group;
};

/// Up: one rank's answer.
struct GroupAnswerMessage {
  std::uint32_t id = 0;
  Rank rank = -1;
  std::uint32_t size = 0;            // tensors that the group must have here; 0: none has come
  std::uint32_t came = 0;            // that have come
  bool joined = false;               // nothing more comes from this rank
  std::uint64_t age_ms = 0;          // since the first came; 0: the group is whole here
  std::vector<std::string> members;  // that have come, ascending; only the first of many
  Status refused;                    // of a member that this rank cannot run; ok if there is none
};

/// Up: a rank waits in call number `number` of this sequence.
struct SequenceNoticeMessage {
  ProcessSetId process_set = kWorldSet;
  std::uint64_t sequence = 0;
  std::uint64_t number = 0;
};

/// Down: asks all ranks of the set in which call of this number they wait.
struct SequenceInquiryMessage {
  std::uint32_t id = 0;
  ProcessSetId process_set = kWorldSet;
  std::uint64_t sequence = 0;
  std::uint64_t number = 0;
  bool wants_places = false;
};

/// Up: one rank's answer.
struct SequenceAnswerMessage {
  struct Operation {
    ProcessSetId process_set = kWorldSet;
    std::string name;  // its key
  };
  std::uint32_t id = 0;
  Rank rank = -1;
  bool has_made = false;              // the rank has made the call of that number
  std::string name;                   // of that call, if the rank waits in it; otherwise empty
  std::string call;                   // in words
  std::string place;                  // in the program, if it was asked for and can be had
  std::vector<Operation> operations;  // of that call that wait
};

/// Up, and then down to the ranks of the set: which of them waits in a send of this message?
struct SenderQuestionMessage {
  std::uint32_t id = 0;  // counts the questions of the receiver
  Rank receiver = -1;
  ProcessSetId process_set = kWorldSet;
  std::string name;  // of the message, from any rank
};

/// Up, and then down to the receiver: this rank does.
struct SenderAnswerMessage {
  std::uint32_t id = 0;
  Rank receiver = -1;
  Rank sender = -1;
  ProcessSetId process_set = kWorldSet;
  std::string name;
  std::uint64_t seen = 0;  // the number of the last order that the sender had followed
};

/// Down: the sender has received a notice from the receiver.
struct HeardMessage {};

/// Up: this change is wanted, unless it is among those from the `from`-th on, which the root may have ordered
/// already.
struct TimelineMessage {
  std::uint64_t from = 0;
  TimelineChange change;
};

/// Down: asks for figures, for live statistics.
struct LookMessage {};

/// Up: one rank's answer.
struct FiguresMessage {
  RankFigures figures;
};

using Message =
    std::variant<ReadyMessage, GoodbyeMessage, FailMessage, OrdersMessage, InquiryMessage, AnswerMessage,
                 NoticeMessage, DumpMessage, HeardMessage, GroupNoticeMessage, GroupInquiryMessage,
                 GroupAnswerMessage, TimelineMessage, LookMessage, FiguresMessage, SequenceNoticeMessage,
                 SequenceInquiryMessage, SequenceAnswerMessage, SenderQuestionMessage, SenderAnswerMessage>;

/// Appends to `out`.
void encode(const Message& message, std::vector<std::byte>& out);
/// An error names what did not fit.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace dabke::wire
