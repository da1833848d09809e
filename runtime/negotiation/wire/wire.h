// The negotiation's messages and their bytes.
//
// Layout: everything little-endian, no padding. Numbers stand at their natural width, or as a varint (seven
// bits a byte, the lowest first, the top bit set on all but the last byte) where this file says so; text and
// lists begin with a varint count. A message is one byte, its index in Message, and the fields of its struct
// in order of declaration, except:
//   - Slots: one byte of form, then
//       0, runs: a varint count of runs; of each a varint first slot and a varint length. Keeps the order.
//       1, bitmap: the varint first slot, a varint count of bytes, and the bytes; slot `first + i` is bit i%8
//       of byte i/8.
//     The writer takes the shorter.
//   - Orders: one byte of form, then
//       0, a run of cached orders: varints of the first number, the first slot and how many. They count up in
//          both, and every rank of the set contributes. Then a varint of the first one's batch, doubled; plus
//          1 where each has the batch after that of the one before, else all have that one.
//       1, one order in full.
//     A byte of form 2 ends the list.
// The links refuse peers of another kWireVersion, so a decoder meets only its own version; bytes that do not
// fit are an error, never misread.
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

/// Stands for a signature that all ranks of its process set know. Never used twice in one init: the low half
/// is its index in every rank's cache, the high half counts how often that index was given.
using Slot = std::uint64_t;
using SlotIndex = std::size_t;
inline constexpr Slot kNoSlot = ~Slot{0};
constexpr SlotIndex index_of(Slot slot) { return slot & 0xffffffffU; }
/// Slots in use at one time.
inline constexpr std::uint64_t kMostCacheSlots = kLargestCache;
/// The most slots in all lists of a message together. A message of more is refused.
inline constexpr std::uint64_t kMostSlotsInMessage = 4 * kMostCacheSlots;
/// A message orders a slot by itself at most once. An order takes more memory than a slot by far, and a few
/// bytes can stand for all of them.
inline constexpr std::uint64_t kMostCachedOrdersInMessage = kMostCacheSlots;

/// One signature under which ranks submitted a name.
struct RequestVariant {
  RequestRef request;
  std::vector<Rank> ranks;  // ascending; empty: all that the report stands for
};

/// A name became ready in a whole subtree; in full, because it has no slot yet, has changed, or ranks have
/// joined.
struct Report {
  std::vector<RequestVariant> variants;  // at least one; more: a mismatch
  std::int32_t contributors = 0;  // ranks that submitted it; fewer than there are where some have joined
  bool root_absent = false;       // broadcast: its root rank is among those that have joined
  std::vector<Rank> joined = {};  // those who do not submit it; where it moves data and is no allreduce
};

/// A rank that has joined and has no device of this type.
struct NotServed {
  DeviceType type = DeviceType::host;
  Rank rank = -1;
};

struct JoinReport {
  ProcessSetId process_set = kWorldSet;
  /// The last to join of the subtree's ranks in the set, all of which have joined. -1: some have, and the report
  /// is of `not_served` alone; that counts before the message's other reports.
  Rank last = -1;
  /// Names of which some of them had submitted several before they joined, and have not reported the last:
  /// for these they count as if they had not joined. A later report of the same set replaces it.
  std::vector<std::string> unfinished;
  std::vector<NotServed> not_served;  // of each device type one rank at most, the lowest known
};

/// Up: these became ready in all of the sender's subtree.
struct ReadyMessage {
  std::uint64_t seen = 0;     // varint: the number of the last order that the sender knows
  std::vector<Slot> slots;    // Slots
  Rank late_rank = -1;        // varint, plus 1: who kept the others waiting longest, and
  std::uint32_t late_us = 0;  // varint: how long
  std::vector<Slot> wanted;   // Slots: somebody waits for these now, and had kept them back
  std::vector<Slot> awaited;  // Slots: somebody waits for these, and has reported them
  std::vector<Report> reports;
  std::vector<JoinReport> joins;  // they count after all else, but for `not_served`
};

/// Up: this rank submits nothing more.
struct GoodbyeMessage {
  Rank rank = -1;
};

/// Every way: the job is over, because of this.
struct FailMessage {
  Code code = Code::aborted;
  std::string text;
};

/// Tensors that become ready together in every step, and are reported and run together.
struct LearnedBatch {
  std::uint32_t hold_us = 0;  // longest time that a rank may keep the first of them back for the others
  std::vector<Slot> slots;
};

/// The timeline is to be written, or no more.
struct TimelineChange {
  bool starts = false;
  bool marks_cycles = false;  // one that starts
  std::string path;           // one that starts
  bool operator==(const TimelineChange&) const = default;
};

/// One element of the job's one sequence.
struct Order {
  enum class Kind : std::uint8_t {
    run,
    error,     // the name fails on every rank
    left,      // `rank` has shut down, and with it all that report through it
    evict,     // the slot means nothing from here on
    learned,   // `batches` from here on; none: forget them
    release,   // report what is kept back; with `slot` only what is kept back for it
    timeline,  // it starts or stops here
  };
  std::uint64_t number = 0;
  Kind kind = Kind::run;
  Slot slot = kNoSlot;  // run: whose signature it is, or, with `request`, becomes; release: see there
  RequestRef request;   // run: null when the slot says it all; error: the process set, and as name the key
  std::int32_t contributors =
      0;                      // run: ranks whose data counts; the divisor of an average; 0: all of the set
  Rank rank = -1;             // left: who; join: who joined last
  ProcessSetId new_set = -1;  // adding a set: its id; removing: the id of the set that ends by it, or -1
  Code error = Code::ok;      // error
  std::string text;           // error; timeline: the path
  bool forced = false;        // error: not everybody had reported; reports from before it mean nothing
  // timeline, and these travel with nothing else: as a TimelineChange has them.
  bool starts = false;
  bool marks_cycles = false;
  /// run, where data moves: tensors of one message with equal numbers here travel together. The batches of a
  /// message run in the order of their numbers, and none goes on in another message.
  std::uint32_t batch = 0;
  std::vector<std::uint32_t> batch_by_tensor;  // for a group that is in several; else empty
  std::vector<LearnedBatch> batches;
};

/// Whether it travels in a run of such orders, as nearly all of a job that repeats its steps do.
inline bool is_plain_cached(const Order& order) {
  return order.kind == Order::Kind::run && !order.request && order.contributors == 0 &&
         order.batch_by_tensor.empty();
}

/// Whether the batches of the orders before it end with an order of this kind that moves no data.
constexpr bool ends_batches(Order::Kind kind) {
  return kind == Order::Kind::run || kind == Order::Kind::error || kind == Order::Kind::left ||
         kind == Order::Kind::timeline;
}

/// Down: the orders, in sequence, that concern the receiver's subtree.
struct OrdersMessage {
  std::vector<Order> orders;
};

/// What is waited in.
enum class StallSubject : std::uint8_t {
  tensor,  // a name that not everybody has submitted
  join,    // dabke_join
  batch,   // a run that does not end; `number` is its order's
};

/// Down: what do you know of this? To the ranks of the set that the root has not heard of, or to everybody.
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
  std::uint64_t idle_ms = 0;            // since it last submitted anything; 0: it never has
  std::vector<ProcessSetId> sets;       // where it waits for this name
  std::vector<std::string> signatures;  // the name's in each of these
  std::vector<ProcessSetId> joined;     // where it submits nothing until the join completes
  std::vector<std::string> instead;     // what else it waits for, in words, some
  std::uint32_t instead_count = 0;      // all
  std::string inside;                   // the batch that it runs, in words; empty: none
  std::uint64_t inside_number = 0;      // its order's
  std::uint64_t inside_ms = 0;          // since it began
  std::string stack;                    // its training threads', if it can tell
};

/// Up: somebody of the sender's subtree waits for this; the root might not know of it.
struct NoticeMessage {
  StallSubject subject = StallSubject::tensor;
  ProcessSetId process_set = kWorldSet;
  std::uint64_t number = 0;
  std::string name;  // its key
  std::uint64_t age_ms = 0;
  bool suspect = false;  // not for long yet, but it may have been submitted to another process set
};

/// Up: every rank is to write a dump, because of this. Down, from the root: this rank is, now.
struct DumpMessage {
  std::uint64_t incident = 0;  // down: counts them
  bool asked = false;          // somebody wants it, and not a warning: stacks may be taken by signals
  std::string reason;
};

/// Up: a group has waited for members on this rank for a while.
struct GroupNoticeMessage {
  ProcessSetId process_set = kWorldSet;
  std::string group;
  std::uint64_t age_ms = 0;
};

/// Down, to the ranks of the set: what have you of this group?
struct GroupInquiryMessage {
  std::uint32_t id = 0;
  ProcessSetId process_set = kWorldSet;
  std::string group;
};

/// Up: one rank's answer.
struct GroupAnswerMessage {
  std::uint32_t id = 0;
  Rank rank = -1;
  std::uint32_t size = 0;            // tensors that the group is to have here; 0: none has come
  std::uint32_t came = 0;            // that have come
  bool joined = false;               // nothing more comes from this rank
  std::uint64_t age_ms = 0;          // since the first came; 0: the group is whole here
  std::vector<std::string> members;  // that have come, ascending; of many the first
  Status refused;                    // a member's, which this rank cannot run; ok: there is none
};

/// Down: the sender has a notice of the receiver's.
struct HeardMessage {};

/// Up: this change is wanted, unless it is among those from the `from`-th on, which the root may have ordered already.
struct TimelineMessage {
  std::uint64_t from = 0;
  TimelineChange change;
};

/// Down: somebody looks at the job.
struct LookMessage {};

/// Up: one rank's answer.
struct FiguresMessage {
  RankFigures figures;
};

using Message =
    std::variant<ReadyMessage, GoodbyeMessage, FailMessage, OrdersMessage, InquiryMessage, AnswerMessage,
                 NoticeMessage, DumpMessage, HeardMessage, GroupNoticeMessage, GroupInquiryMessage,
                 GroupAnswerMessage, TimelineMessage, LookMessage, FiguresMessage>;

/// Appends to `out`.
void encode(const Message& message, std::vector<std::byte>& out);
/// An error names what did not fit.
Result<Message> decode(std::span<const std::byte> bytes);

}  // namespace dabke::wire
