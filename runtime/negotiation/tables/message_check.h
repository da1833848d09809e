// What a message may say in this job, beyond its form: decode() knows no ranks. A neighbour has proved that
// it belongs to the job, so what fails here is a mistake of ours or broken memory; it ends the job with a
// sentence, not with a crash.
#pragma once

#include "runtime/negotiation/tables/topology.h"
#include "runtime/negotiation/wire/wire.h"

namespace dabke::negotiation {

/// `peer` is the neighbour that it came from. Costs nothing to speak of where all is by slot.
///   errors  internal, with what cannot be
Status check_message(const wire::Message& message, const Topology& topology, Rank peer);

}  // namespace dabke::negotiation
