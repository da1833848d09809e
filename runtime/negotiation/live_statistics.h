// The figures of all ranks, for live statistics. The root asks, and every rank answers at once, for itself.
// Nothing is sent while nobody reads the statistics.
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

  /// Asks for the figures of this rank and of all ranks below it.
  void ask();
  /// Takes this rank's own figures, after a FiguresAction; on the root, also those of other ranks.
  void give(RankFigures figures, TimePoint now);
  /// On the root: the last answer of each rank that has answered.
  const std::map<Rank, Answer>& answers() const { return answers_; }

 private:
  const NegotiationState& state_;
  Outbox& outbox_;
  std::map<Rank, Answer> answers_;
};

}  // namespace dabke::negotiation
