#include "launcher/machine/host_cores.h"

namespace dabke::launcher {

bool can_find_caches() { return false; }

std::optional<std::vector<CacheCores>> cores_by_cache(const std::vector<int>&, const std::string&) {
  return std::nullopt;
}

}  // namespace dabke::launcher
