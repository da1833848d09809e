// What ends everybody's wait in init early.
//
// The ranks of an epoch come into their job together or not at all. So whoever waits for others in the epoch's store
// also looks, a few times a second,
//   - whether the process of another rank of this host has ended, as the kernel tells, and not in good order;
//   - whether a rank whose link has ended has not left in good order;
//   - whether a rank anywhere has left why its init failed (init_failure.h).
// Either ends the wait, with the first cause, and whoever learns of it leaves it for the others. A rank on a host of
// its own that dies before it is linked to another is seen by nobody.
#pragma once

#include <memory>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/world.h"
#include "runtime/links/process_identity.h"
#include "runtime/store/store.h"

namespace dabke::store {

/// How often a rank that waits in init asks the store: of many ranks each less often, because they share it.
Duration look_interval(int size);

/// `epoch`, the store of the job's epoch, whose get() and trouble() tell of such an end until init_is_over().
/// `processes`: by rank; empty where they are not known.
std::shared_ptr<Store> watch_init(std::shared_ptr<Store> epoch, const World& world,
                                  std::vector<links::ProcessIdentity> processes);

/// Left by a rank that leaves its job in good order: the end of its process means nothing after that.
void report_clean_end(Store& epoch, Rank rank);

}  // namespace dabke::store
