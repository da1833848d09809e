// Dabke's backends, called directly: without negotiation and without background threads of the runtime.
#pragma once

#include <memory>
#include <string>

#include "benchmarks/perf/competitors/competitor.h"
#include "runtime/backend/backend.h"
#include "runtime/bootstrap/bootstrap.h"

namespace dabke::perf {

/// Collective. Returns null if `backend` needs shared memory and the ranks share
/// none. All arguments must outlive it.
Result<std::unique_ptr<Competitor>> open_raw_backend(const std::string& backend, const Config& config,
                                                     const bootstrap::Bootstrapped& place,
                                                     ForkGuard& fork_guard, shm::SharedHeap& heap);

}  // namespace dabke::perf
