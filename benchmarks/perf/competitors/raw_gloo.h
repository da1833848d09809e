// Gloo, called directly: the fastest of its algorithms over its TCP transport.
#pragma once

#include <memory>

#include "benchmarks/perf/competitors/competitor.h"
#include "benchmarks/perf/measure/team.h"
#include "runtime/base/world.h"
#include "runtime/store/store.h"

namespace dabke::perf {

/// Connects when first needed, over loopback. `team` must outlive it.
std::unique_ptr<Competitor> make_raw_gloo(std::shared_ptr<store::Store> store, Team& team);

}  // namespace dabke::perf
