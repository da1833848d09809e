// The figures of all ranks, for whoever looks at the job: the root asks, and all answer at once, each for
// itself. While nobody looks nothing is sent.
#pragma once

#include <map>
#include <vector>

#include "runtime/base/rank_figures.h"
#include "runtime/negotiation/state/negotiation_state.h"
#include "runtime/negotiation/state/outbox.h"

namespace dabke::negotiation {

class LiveStatistics {
 public:
  struct Answer {
    RankFigures figures;
    TimePoint at{};  // when it came
  };

  LiveStatistics(const NegotiationState& state, Outbox& outbox) : state_(state), outbox_(outbox) {}

  /// This rank is to tell its figures, and all below it.
  void ask();
  /// This rank's own, after a FiguresAction; on the root, also those of others.
  void give(RankFigures figures, TimePoint now);
  /// The root's: the last answer of each rank that has answered.
  const std::map<Rank, Answer>& answers() const { return answers_; }

 private:
  const NegotiationState& state_;
  Outbox& outbox_;
  std::map<Rank, Answer> answers_;
};

}  // namespace dabke::negotiation
