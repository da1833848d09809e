// The cores of this host that this process may use, as the system tells.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/machine/core_shares.h"

namespace dabke::launcher {

HostCores cores_of_this_host();

/// Of those units, which are one core and which share a last-level cache; nothing where that cannot be known, as
/// without hwloc. `synthetic`: instead of this host's, the topology of such a description, with all its units; for
/// tests.
std::optional<std::vector<CacheCores>> cores_by_cache(const std::vector<int>& units,
                                                      const std::string& synthetic = "");
/// With hwloc.
bool can_find_caches();

/// How many processors a control group grants; 0: as many as there are. `root` is where the control groups are mounted,
/// `own` what /proc/self/cgroup says.
double processor_quota(const std::string& root, const std::string& own);

}  // namespace dabke::launcher
