// What this rank answers when the root asks after a stall: whether it has what is waited for, what it waits for
// itself, and, where others wait for it, where its threads are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/negotiation/state/negotiation_state.h"
#include "runtime/negotiation/state/outbox.h"

namespace dabke::negotiation {

/// A batch that this rank runs.
struct RunningBatch {
  std::uint64_t number = 0;  // its order's
  ProcessSetId process_set = kWorldSet;
  std::string what;  // "allreduce 'x' and 3 more (order 4)"
  TimePoint since{};
};

class StallAnswers {
 public:
  /// `stack_due`: set to when the answers wait no longer for a stack.
  StallAnswers(const NegotiationState& state, Outbox& outbox, Deadline& stack_due)
      : state_(state), outbox_(outbox), stack_due_(stack_due) {}

  void note_submit(TimePoint now) { last_submit_ = now; }
  /// Nothing where it is not asked, or where the answer waits for a stack that has been asked for.
  std::optional<wire::AnswerMessage> answer(const wire::InquiryMessage& message, TimePoint now);
  /// What the answers that wait for give_stack() are to say.
  void note_running(const RunningBatch& running, TimePoint now);
  /// The answers that have waited for it.
  std::vector<wire::AnswerMessage> give_stack(const std::string& text);

 private:
  void list_what_waits(const wire::InquiryMessage& message, wire::AnswerMessage& mine) const;

  const NegotiationState& state_;
  Outbox& outbox_;
  Deadline& stack_due_;
  TimePoint last_submit_{};
  std::vector<wire::AnswerMessage> without_stack_;
};

}  // namespace dabke::negotiation
