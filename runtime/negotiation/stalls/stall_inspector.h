// One rank's watch over names that do not become ready, and over its own waits.
//
//   1. A name may stay incomplete in this rank's subtree past the warning time, or a request may wait here
//      for as long. The rank then notifies its parent in the tree (NoticeMessage). The parent acknowledges
//      the notice (HeardMessage) and passes it on, so that it comes to the root.
//   2. The root asks the ranks that have not reported to it (stall_inquiries.h), and each answers for itself
//      (stall_answers.h). The verdict is a warning, an error, or the end of the job.
//   3. A rank may receive nothing at all from its parent for a while after a notice. It then reports by
//      itself that the parent does not answer, and writes a dump with the ranks below it. It ends the job
//      when the wait has lasted long enough for that. So a root or a host's leader that has stopped is found
//      by the ranks that report through it, although it is the one that would ask.
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
                  [this](TimePoint now) {
                    give_stack(StallAnswers::kEveryStack, "(its stack could not be read in time)", now);
                  }),
        answers_(state, outbox, stack_by_),
        inquiries_(state, outbox, endings, dumps, answers_) {}

  void note_submit(TimePoint now) { answers_.note_submit(now); }
  /// Notes that a request like this waits here.
  void note_wait(const Request& request, TimePoint now) {
    if (next_wait_check_.is_set() || state_.options.stall_check <= Duration::zero()) return;
    if (!state_.is_root() || request.kind == CollectiveKind::join || is_from_any(request))
      next_wait_check_.set(now + patience());
  }
  /// Notes a name that is incomplete in this subtree.
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
  /// Notes a run that has taken long. Called again after a while, as long as the run lasts.
  void note_long_run(const RunningBatch& running, TimePoint now);
  /// Answers every StackAction up to this number.
  void give_stack(std::uint64_t number, const std::string& text, TimePoint now);

  /// Passes a notice of a wait on to the root.
  void notify(const wire::NoticeMessage& notice, TimePoint now);
  /// Called for every message of the parent, which shows that it is there.
  void note_parent() {
    if (word_by_.is_set()) parent_is_heard();
  }
  /// Passes the question on, and answers it for this rank.
  void answer(const wire::InquiryMessage& message, TimePoint now);
  /// Root only.
  void take_answer(wire::AnswerMessage answer, TimePoint now);

 private:
  /// True if the name may have been submitted to another process set. A request that the caller gives no
  /// name, such as a barrier, shows nothing of that: sets may have theirs in opposite orders.
  bool is_suspect(const TensorEntry& entry) const {
    return entry.slot == wire::kNoSlot && state_.sets.has_added() && !is_pair(entry.process_set) &&
           moves_data(request_of(entry).kind);
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

  NegotiationState& state_;
  Outbox& outbox_;
  Endings& endings_;
  DumpRequests& dumps_;
  Deadline next_check_;       // when to check what is incomplete in this subtree
  Deadline next_wait_check_;  // when to check what this rank itself waits for
  Deadline word_by_;          // when a message is due from the parent, which has the notice `unheard_`
  Deadline stack_by_;         // when answers go without a stack
  StallAnswers answers_;
  StallInquiries inquiries_;
  StallLog reported_of_parent_;
  wire::NoticeMessage unheard_;  // the longest wait in a notice to the parent
  TimePoint unheard_at_{};
};

}  // namespace dabke::negotiation
