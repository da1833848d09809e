// What is said of ranks that have shut down while this one still has something to do with them.
#pragma once

#include <string>

#include "runtime/negotiation/state/negotiation_state.h"

namespace dabke::negotiation {

/// Who of these ranks has left: the first of all where it is one of them.
Departure departure_from(const NegotiationState& state, const std::vector<Rank>& ranks);

/// Why `what` of this rank, as in "allreduce 'x'", cannot run.
Status departed(const NegotiationState& state, const Departure& departure, const std::string& what,
                TimePoint now);

}  // namespace dabke::negotiation
