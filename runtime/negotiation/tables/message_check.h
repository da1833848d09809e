// Checks what a message may contain in this job, beyond its form: decode() has no list of ranks. A neighbour
// has proved that it belongs to the job, so a message that fails here is a defect of ours, or of memory. It
// ends the job with an error, not with a crash.
#pragma once

#include "runtime/negotiation/tables/topology.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

/// `peer` is the neighbour that sent the message. Costs almost nothing if all is by slot.
///   errors  internal, with what is impossible
Status check_message(const wire::Message& message, const Topology& topology, Rank peer);

}  // namespace dabke::negotiation
