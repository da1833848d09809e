#include <hwloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>

#include "launcher/machine/host_cores.h"

namespace dabke::launcher {
namespace {

struct Unload {
  void operator()(hwloc_topology_t topology) const { ::hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, Unload>;

Topology load(const std::string& synthetic) {
  hwloc_topology_t raw = nullptr;
  if (::hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology(raw);
  if (!synthetic.empty() && ::hwloc_topology_set_synthetic(raw, synthetic.c_str()) != 0) return nullptr;
  // Without the flag, only the units of the control group would be shown, with other numbers of caches than
  // the machine has.
  ::hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  return ::hwloc_topology_load(raw) == 0 ? std::move(topology) : nullptr;
}

/// Returns the numbers of the unit's cache and core. The outermost cache is the last level.
std::pair<hwloc_uint64_t, hwloc_uint64_t> place_of(hwloc_obj_t unit) {
  hwloc_uint64_t cache = 0, core = unit->gp_index;
  for (hwloc_obj_t each = unit->parent; each != nullptr; each = each->parent) {
    if (each->type == HWLOC_OBJ_CORE) core = each->gp_index;
    if (::hwloc_obj_type_is_dcache(each->type)) cache = each->gp_index;
  }
  return {cache, core};
}

}  // namespace

bool can_find_caches() { return true; }

std::optional<std::vector<CacheCores>> cores_by_cache(const std::vector<int>& units,
                                                      const std::string& synthetic) {
  const Topology topology = load(synthetic);
  if (topology == nullptr) return std::nullopt;
  std::vector<CacheCores> caches;
  std::map<hwloc_uint64_t, std::size_t> cache_numbers;
  std::map<hwloc_uint64_t, std::size_t> core_numbers;  // within their cache
  hwloc_obj_t unit = nullptr;
  while ((unit = ::hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_PU, unit)) != nullptr) {
    const int number = static_cast<int>(unit->os_index);
    if (synthetic.empty() && std::ranges::find(units, number) == units.end()) continue;
    const auto [cache, core] = place_of(unit);
    const std::size_t at = cache_numbers.try_emplace(cache, caches.size()).first->second;
    if (at == caches.size()) caches.emplace_back();
    const std::size_t within = core_numbers.try_emplace(core, caches[at].size()).first->second;
    if (within == caches[at].size()) caches[at].emplace_back();
    caches[at][within].push_back(number);
  }
  return caches;
}

}  // namespace dabke::launcher
