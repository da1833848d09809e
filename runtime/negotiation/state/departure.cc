#include "runtime/negotiation/state/departure.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace dabke::negotiation {
namespace {

/// A request that fails this soon after the departure was in flight then, whatever the clock shows.
constexpr Duration kAtOnce = std::chrono::milliseconds(50);

}  // namespace

Departure departure_from(const NegotiationState& state, const std::vector<Rank>& ranks) {
  auto gone = std::ranges::find(ranks, state.first_left);
  if (gone == ranks.end())
    gone = std::ranges::find_if(ranks, [&](Rank rank) { return state.has_left(rank); });
  if (gone == ranks.end()) return {"a rank", {}};
  return {state.who(*gone), state.left_at[static_cast<std::size_t>(*gone)]};
}

Status departed(const NegotiationState& state, const Departure& departure, const std::string& what,
                TimePoint now) {
  const Duration since = now - departure.at;
  const std::string before =
      since < kAtOnce ? "" : fmt::format(" {:.1f} s before", std::chrono::duration<double>(since).count());
  return {Code::shut_down, fmt::format("{} left the job normally{}, while rank {} waits for {}; do all ranks "
                                       "run the same number of steps? See join()",
                                       departure.who, before, state.options.rank, what)};
}

}  // namespace dabke::negotiation
