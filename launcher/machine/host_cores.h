// The cores of this host that this process may use, as the system reports them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/machine/core_shares.h"

namespace dabke::launcher {

HostCores cores_of_this_host();

/// Groups the units by core and by last-level cache; nothing if the topology is unknown, as without hwloc.
/// `synthetic` describes a topology that replaces this host's, with all its units; for tests.
std::optional<std::vector<CacheCores>> cores_by_cache(const std::vector<int>& units,
                                                      const std::string& synthetic = "");
/// True with hwloc.
bool can_find_caches();

/// Returns the number of processors that a control group grants; 0 if there is no limit. `root` is where the
/// control groups are mounted, `own` the contents of /proc/self/cgroup.
double processor_quota(const std::string& root, const std::string& own);

}  // namespace dabke::launcher
