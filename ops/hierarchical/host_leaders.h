// Finds the ranks that share memory, by trial: containers on one machine may count as several hosts.
#pragma once

#include <vector>

#include "runtime/backend/backend.h"

namespace dabke::ops {

/// Returns, for each rank of the world, the lowest rank with which it shares memory, itself included. `own`
/// is this rank's leader. Collective over the world: rank 0 gathers the leaders in the store. The error
/// timeout names the ranks that are absent.
Result<std::vector<Rank>> gather_leaders(const BackendContext& context, Rank own);

}  // namespace dabke::ops
