// The errors of requests that need ranks which have shut down.
#pragma once

#include <string>

#include "runtime/negotiation/state/negotiation_state.h"

namespace dabke::negotiation {

/// Returns which of these ranks has left: the first of all that left, if it is one of them.
Departure departure_from(const NegotiationState& state, const std::vector<Rank>& ranks);

/// Returns why `what` of this rank, such as "allreduce 'x'", cannot run.
Status departed(const NegotiationState& state, const Departure& departure, const std::string& what,
                TimePoint now);

}  // namespace dabke::negotiation
