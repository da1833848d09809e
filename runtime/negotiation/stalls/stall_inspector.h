// One rank's watch over what does not become ready, and over what it waits for itself.
//
//   1. A name that stays incomplete in this rank's subtree past the warning time, and whatever waits here for as
//      long, is told to the parent in the tree (NoticeMessage), which says that it has heard (HeardMessage) and
//      passes it on. So it comes to the root.
//   2. The root asks the ranks that it has not heard of (stall_inquiries.h), each answers for itself
//      (stall_answers.h), and the verdict is a warning, an error, or the end of the job.
//   3. Whoever hears nothing at all from its parent for a while after it has told it something tells by
//      itself that the parent does not answer, writes a dump with those below it, and ends the job when the
//      wait has lasted long enough for that. So a root or a host's leader that stands still is found by those
//      who report through it, though it is the one who would ask.
#pragma once

#include <algorithm>
#include <string>

#include "runtime/negotiation/stalls/stall_answers.h"
#include "runtime/negotiation/stalls/stall_inquiries.h"
#include "runtime/negotiation/state/dump_requests.h"
#include "runtime/negotiation/state/endings.h"
#include "runtime/negotiation/tables/stall_log.h"

namespace dabke::negotiation {

class StallInspector {
 public:
  StallInspector(NegotiationState& state, Outbox& outbox, Endings& endings, DumpRequests& dumps)
      : state_(state),
        outbox_(outbox),
        endings_(endings),
        dumps_(dumps),
        next_check_(state.deadlines, [this](TimePoint now) { look_for_stalls(now); }),
        next_wait_check_(state.deadlines, [this](TimePoint now) { look_for_long_waits(now); }),
        word_by_(state.deadlines, [this](TimePoint now) { parent_is_silent(now); }),
        stack_by_(state.deadlines,
                  [this](TimePoint now) { give_stack("(its stack could not be had in time)", now); }),
        answers_(state, outbox, stack_by_),
        inquiries_(state, outbox, endings, dumps, answers_) {}

  void note_submit(TimePoint now) { answers_.note_submit(now); }
  /// A request of this kind waits here.
  void note_wait(CollectiveKind kind, TimePoint now) {
    if (next_wait_check_.is_set() || state_.options.stall_check <= Duration::zero()) return;
    if (!state_.is_root() || kind == CollectiveKind::join) next_wait_check_.set(now + patience());
  }
  /// Not everybody in this subtree has it.
  void note_incomplete(const TensorEntry& entry) {
    const Collection& collection = entry.collection;
    const MachineOptions& options = state_.options;
    TimePoint check = kNever;
    if (options.stall_check > Duration::zero()) check = collection.since + options.stall_check;
    if (options.stall_shutdown > Duration::zero()) {
      check = std::min(check, collection.since + options.stall_shutdown);
    }
    if (is_suspect(entry)) check = std::min(check, collection.suspect_at);
    next_check_.set_by(check);
  }
  /// Something of this set has been ordered.
  void note_progress(ProcessSetId set) {
    if (!inquiries_.empty()) inquiries_.forget_join(set);
  }
  void note_running(const RunningBatch& running, TimePoint now) { answers_.note_running(running, now); }
  /// It has taken long; again after a while, as long as it does.
  void note_long_run(const RunningBatch& running, TimePoint now);
  /// The answer to every StackAction until now.
  void give_stack(const std::string& text, TimePoint now);

  /// A child tells of a wait.
  void notify(const wire::NoticeMessage& notice, TimePoint now);
  /// Whatever the parent says, it says that it is there.
  void note_parent() {
    if (word_by_.is_set()) parent_is_heard();
  }
  /// Passes the question on, and answers it for this rank.
  void answer(const wire::InquiryMessage& message, TimePoint now);
  /// The root only.
  void take_answer(wire::AnswerMessage answer, TimePoint now);

 private:
  /// Whether it may have been submitted to another process set. What the caller has given no name, a barrier say,
  /// tells nothing of that: sets may well have theirs in opposite orders.
  bool is_suspect(const TensorEntry& entry) const {
    return entry.slot == wire::kNoSlot && state_.sets.count() > 1 && moves_data(request_of(entry).kind);
  }
  void look_for_stalls(TimePoint now);
  void look_for_long_waits(TimePoint now);
  void heed(const wire::NoticeMessage& notice, TimePoint now);
  void give_answer(wire::AnswerMessage answer);
  void parent_is_heard();
  void parent_is_silent(TimePoint now);
  Duration patience() const;
  bool is_to_fail(Duration age) const;
  TimePoint next_look(TimePoint since, TimePoint now) const;

  const NegotiationState& state_;
  Outbox& outbox_;
  Endings& endings_;
  DumpRequests& dumps_;
  Deadline next_check_;       // when to look at what is incomplete in this subtree
  Deadline next_wait_check_;  // when to look at what this rank itself waits for
  Deadline word_by_;          // when word is due from the parent, which has been told `unheard_`
  Deadline stack_by_;         // when answers_ goes without a stack
  StallAnswers answers_;
  StallInquiries inquiries_;
  StallLog reported_of_parent_;
  wire::NoticeMessage unheard_;  // the longest wait that it was told of
  TimePoint unheard_at_{};
};

}  // namespace dabke::negotiation
