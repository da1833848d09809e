// The store of a job that no launcher serves: rank 0 does, in the application's process.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"

namespace dabke::bootstrap {

/// What the other ranks must know of it, as in DABKE_RENDEZVOUS, DABKE_JOB_ID and DABKE_JOB_KEY. Of a job on several hosts
/// the first lists all addresses of rank 0's host, or those that DABKE_NETWORK_INTERFACE selects (store_address.h).
struct ServedStore {
  std::string rendezvous, job_id, job_key;
};

/// Whose store it is: of one set of ranks that will look in it for the epochs to come, or of whatever jobs
/// this process is rank 0 of, one after the other, whose ranks are told the epoch.
enum class StoreUse { of_its_own, of_many_jobs };

/// Serves a store that ranks on `hosts` reach, with a secret from the system's random source. It is served as
/// long as the process lives, because other ranks may still be meeting when this one has shut down. One of many
/// jobs is served again, with its secret, where the addresses are the same.
Result<ServedStore> serve_store(const Config& config, const std::vector<std::string>& hosts, StoreUse use);

}  // namespace dabke::bootstrap
