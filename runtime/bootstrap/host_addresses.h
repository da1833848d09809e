// How the hosts of a job agree on one address for each, used for everything on which its ranks listen.
//
//   1. The lowest rank of each host is its leader. It listens on all addresses of the host, or on those that
//      DABKE_NETWORK_INTERFACE selects, and leaves them in `network/addresses/<rank>`.
//   2. The leader tries the addresses of the hosts that are 1, 2, 4, ... places after its own. It leaves in
//      `network/seen/<rank>` which of them it reached (address_trials.h). So each host is tried by at most a
//      logarithm of the number of hosts, and only the leaders take part.
//   3. Rank 0 chooses (address_choice.h) and leaves the verdict in `network/verdict`, which every rank reads.
//      The verdict is an error if a leader failed, or if no choice connects all hosts.
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
  std::string address;  // in the form of World::address
  std::string table;    // on rank 0 of a job on several hosts: the whole choice, in words
};

/// `epoch` is the store of the job's epoch. Every rank must call this.
Result<AgreedAddress> agree_on_address(const World& world, const Config& config, store::Store& epoch,
                                       TimePoint deadline);

}  // namespace dabke::bootstrap
