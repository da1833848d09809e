// The store of a job that no launcher serves: rank 0 serves it, in the application's process.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"

namespace dabke::bootstrap {

/// The facts that the other ranks need, in the form of DABKE_RENDEZVOUS, DABKE_JOB_ID and DABKE_JOB_KEY. In a
/// job on several hosts the first lists all addresses of rank 0's host, or those that DABKE_NETWORK_INTERFACE
/// selects (store_address.h).
struct ServedStore {
  std::string rendezvous, job_id, job_key;
};

/// The users of a store.
///   of_its_own    one set of ranks, which also meet in it for later epochs
///   of_many_jobs  all jobs, one after the other, in which this process is rank 0; their ranks get the epoch
///                 from the exchange
enum class StoreUse { of_its_own, of_many_jobs };

/// Serves a store that ranks on `hosts` reach, with a secret from the system's random source. It is served
/// until the process ends, because other ranks may still be meeting when this one has shut down. A store of
/// many jobs is used again, with its secret, if the addresses are the same.
Result<ServedStore> serve_store(const Config& config, const std::vector<std::string>& hosts, StoreUse use);

}  // namespace dabke::bootstrap
