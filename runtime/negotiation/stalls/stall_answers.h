// This rank's answer when the root asks about a stall: whether it has what is awaited, and what it waits for
// itself. If others wait for it, the answer reports where its threads are.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runtime/negotiation/state/negotiation_state.h"
#include "runtime/negotiation/state/outbox.h"

namespace dabke::negotiation {

/// A batch that this rank runs.
struct RunningBatch {
  std::uint64_t number = 0;  // of its order
  ProcessSetId process_set = kWorldSet;
  std::string what;  // "allreduce 'x' and 3 more (order 4)"
  TimePoint since{};
};

class StallAnswers {
 public:
  static constexpr std::uint64_t kEveryStack = std::numeric_limits<std::uint64_t>::max();

  /// `stack_due` is set to the time when the answers stop waiting for a stack.
  StallAnswers(const NegotiationState& state, Outbox& outbox, Deadline& stack_due)
      : state_(state), outbox_(outbox), stack_due_(stack_due) {}

  void note_submit(TimePoint now) { last_submit_ = now; }
  /// Returns nothing if this rank is not asked, or if the answer waits for a stack that was requested.
  std::optional<wire::AnswerMessage> answer(const wire::InquiryMessage& message, TimePoint now);
  /// Sets the running batch in the answers that wait for give_stack().
  void note_running(const RunningBatch& running, TimePoint now);
  /// Returns the answers that have waited for the StackAction of this number, or an earlier one.
  std::vector<wire::AnswerMessage> give_stack(std::uint64_t number, const std::string& text);

 private:
  void list_what_waits(const wire::InquiryMessage& message, wire::AnswerMessage& mine) const;

  const NegotiationState& state_;
  Outbox& outbox_;
  Deadline& stack_due_;
  TimePoint last_submit_{};
  std::vector<wire::AnswerMessage> without_stack_;
  std::uint64_t stack_asked_ = 0;  // the number of the action for which they wait
};

}  // namespace dabke::negotiation
