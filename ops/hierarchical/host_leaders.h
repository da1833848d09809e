// Which ranks share memory, as they have found out by trying: containers on one machine may be several hosts.
#pragma once

#include <vector>

#include "runtime/backend/backend.h"

namespace dabke::ops {

/// The lowest rank that each rank of the world shares memory with, itself included; `own` is this rank's.
/// Collective over the world: rank 0 gathers them in the store. Code timeout names the rank that did not
/// come.
Result<std::vector<Rank>> gather_leaders(const BackendContext& context, Rank own);

}  // namespace dabke::ops
