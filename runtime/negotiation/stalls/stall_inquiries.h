// The root's inquiries about stalls: which ranks it asks, and what it concludes from the answers (inquiry.h).
#pragma once

#include <vector>

#include "runtime/negotiation/stalls/stall_answers.h"
#include "runtime/negotiation/state/dump_requests.h"
#include "runtime/negotiation/state/endings.h"
#include "runtime/negotiation/tables/inquiry.h"
#include "runtime/negotiation/tables/stall_log.h"

namespace dabke::negotiation {

/// Returns what is known of the process of a rank that does not answer.
std::string process_of(const NegotiationState& state, Rank rank);

class StallInquiries {
 public:
  StallInquiries(NegotiationState& state, Outbox& outbox, Endings& endings, DumpRequests& dumps,
                 StallAnswers& answers)
      : state_(state),
        outbox_(outbox),
        endings_(endings),
        dumps_(dumps),
        answers_(answers),
        answers_due_(state.deadlines, [this](TimePoint now) { judge(now); }) {}

  /// Asks, unless the same was asked or reported before.
  void open(Inquiry inquiry, TimePoint now);
  void take(wire::AnswerMessage answer);
  /// Decides the inquiries that all ranks have answered, or that have waited long enough.
  void judge(TimePoint now);
  bool empty() const { return inquiries_.empty(); }
  /// Something of this set has been ordered, so ranks that have joined it do not wait in vain.
  void forget_join(ProcessSetId set);

 private:
  bool is_known(const Inquiry& inquiry, TimePoint now);
  bool has_been_reported(const Inquiry& inquiry, TimePoint now) const;
  void ask(Inquiry inquiry, TimePoint now);
  void judge(const Inquiry& inquiry, TimePoint now);
  void judge_mismatch(const Inquiry& inquiry, TimePoint now);
  void report(const Inquiry& inquiry, const Stall& stall, TimePoint now);
  /// Called when some of the inquiries are gone.
  void note_deadline();

  const NegotiationState& state_;
  Outbox& outbox_;
  Endings& endings_;
  DumpRequests& dumps_;
  StallAnswers& answers_;  // this rank's own
  Deadline answers_due_;   // of any inquiry
  std::vector<Inquiry> inquiries_;
  std::uint32_t next_id_ = 1;
  StallLog log_;
};

}  // namespace dabke::negotiation
