// How the hosts of a job agree at which address each is reached, once for all that ranks listen for.
//
//   1. Of each host the lowest rank, its leader, listens on all addresses that the host has (or that
//      DABKE_NETWORK_INTERFACE selects) and leaves them in `network/addresses/<rank>`.
//   2. It tries the addresses of the hosts that are 1, 2, 4, ... places after its own, and leaves in
//      `network/seen/<rank>` which of them led there (address_trials.h). So no host is tried by more than the
//      logarithm of the hosts, and no rank but the leaders takes part.
//   3. Rank 0 chooses (address_choice.h) and leaves the verdict in `network/verdict`, which every rank reads. What
//      kept a leader from its part, or from any address of a host, is the verdict too.
//
// A job on one host needs none of this.
#pragma once

#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/store/store.h"

namespace dabke::bootstrap {

struct AgreedAddress {
  std::string address;  // as World::address
  std::string table;    // the whole choice, in words; rank 0's, of a job on several hosts
};

/// `epoch` is the store of the job's epoch. Every rank calls it.
Result<AgreedAddress> agree_on_address(const World& world, const Config& config, store::Store& epoch,
                                       TimePoint deadline);

}  // namespace dabke::bootstrap
