// The watch that ends the waits of all ranks in init early.
//
// The ranks of an epoch come into their job together or not at all. So a rank that waits for others in the
// epoch's store also checks, a few times a second, if
//   - the process of another rank of this host has ended, as the kernel reports, and not in good order;
//   - a rank whose link has ended has not left in good order;
//   - any rank has left the reason why its init failed (init_failure.h).
// Each of these ends the wait, with the first cause, and the rank that finds it leaves it for the others. If
// a rank is alone on its host and dies before it is linked to another, no rank notices.
#pragma once

#include <memory>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/world.h"
#include "runtime/links/process_identity.h"
#include "runtime/store/store.h"

namespace dabke::store {

/// The interval at which a rank that waits in init asks the store. It grows with the number of ranks, because
/// they share the store.
Duration look_interval(int size);

/// `epoch` is the store of the job's epoch; get() and trouble() then report such an end until init_is_over().
/// `processes` is by rank; empty if unknown.
std::shared_ptr<Store> watch_init(std::shared_ptr<Store> epoch, const World& world,
                                  std::vector<links::ProcessIdentity> processes);

/// Left by a rank that leaves its job in good order. After that the end of its process has no meaning.
void report_clean_end(Store& epoch, Rank rank);

}  // namespace dabke::store
