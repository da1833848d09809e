#include "runtime/negotiation/live_statistics.h"

#include <utility>

namespace dabke::negotiation {

void LiveStatistics::ask() {
  if (state_.over) return;
  for (const Rank child : state_.children()) outbox_.send(child, wire::LookMessage{});
  outbox_.add(FiguresAction{});
}

void LiveStatistics::give(RankFigures figures, TimePoint now) {
  if (state_.over) return;
  if (!state_.is_root()) return outbox_.send(state_.parent(), wire::FiguresMessage{std::move(figures)});
  const Rank rank = figures.rank;
  answers_.insert_or_assign(rank, Answer{std::move(figures), now});
}

}  // namespace dabke::negotiation
