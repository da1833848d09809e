// The place that the plan of an epoch gives to a rank of an elastic job. Pure.
#pragma once

#include "runtime/base/world.h"
#include "runtime/bootstrap/elastic/epoch_plan.h"
#include "runtime/bootstrap/place.h"
#include "runtime/bootstrap/roster.h"

namespace dabke::bootstrap {

/// The local rank is kept from epoch to epoch. It may be as large as the local size, or larger.
HostPlacement placement_in(const EpochPlan& plan, Rank rank);

/// The roster that the members need not draw up, because the plan has it.
Roster roster_of(const EpochPlan& plan);

}  // namespace dabke::bootstrap
