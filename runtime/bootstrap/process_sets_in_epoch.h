// The process sets of an elastic job, from epoch to epoch. Pure.
//
// Sets of the configuration are given by rank, and so each epoch has them anew. Sets that the program has
// added belong to processes: such a set goes on under its id if all its processes are in the next epoch. In
// its arrival, each process lists the sets that it has. All members read all lists in the plan, so new
// processes get the sets as well.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/bootstrap/elastic/epoch_plan.h"
#include "runtime/call/process_set_list.h"

namespace dabke::bootstrap {

/// The text of an arrival: the sets of the configuration, which must be equal on all members, and those that
/// the program has added.
std::string process_sets_to_text(const std::string& configured, const FirstSets& sets);

/// The sets with which the epoch of the plan begins. `before` are those of this process in the epoch before.
/// It adds nothing but the ids that have been lost, because all members must have the same sets.
FirstSets process_sets_in(const EpochPlan& plan, const FirstSets& before);

/// An error if members were started with different sets in their configurations. All members find the same
/// error.
Status check_process_sets(const EpochPlan& plan);

}  // namespace dabke::bootstrap
