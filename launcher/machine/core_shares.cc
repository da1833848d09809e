#include "launcher/machine/core_shares.h"
#include "runtime/base/text/counted.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

namespace dabke::launcher {
namespace {

std::size_t size_of(const std::vector<CacheCores>& caches) {
  std::size_t size = 0;
  for (const CacheCores& cache : caches) size += cache.size();
  return size;
}

/// Returns every unit as a core of its own.
std::vector<CacheCores> units_of(const std::vector<CacheCores>& caches) {
  std::vector<CacheCores> units;
  for (const CacheCores& cache : caches) {
    CacheCores& own = units.emplace_back();
    for (const Core& core : cache) {
      for (const int unit : core) own.push_back({unit});
    }
  }
  return units;
}

std::vector<int> joined(const CacheCores& cores, std::size_t first, std::size_t count) {
  std::vector<int> units;
  for (std::size_t i = first; i < first + count; ++i)
    units.insert(units.end(), cores[i].begin(), cores[i].end());
  return units;
}

/// Returns `share` cores for each of `ranks` ranks. If the caches have no room for all shares, shares cross
/// the border between caches.
std::vector<std::vector<int>> shares_of(const std::vector<CacheCores>& caches, std::size_t ranks,
                                        std::size_t share) {
  std::vector<std::vector<int>> shares;
  for (const CacheCores& cache : caches) {
    for (std::size_t at = 0; at + share <= cache.size() && shares.size() < ranks; at += share)
      shares.push_back(joined(cache, at, share));
  }
  if (shares.size() == ranks) return shares;
  CacheCores all;
  for (const CacheCores& cache : caches) all.insert(all.end(), cache.begin(), cache.end());
  shares.clear();
  for (std::size_t rank = 0; rank < ranks; ++rank) shares.push_back(joined(all, rank * share, share));
  return shares;
}

}  // namespace

CoreShares share_cores(const HostCores& host, int local_size, BindTo bind_to) {
  CoreShares out;
  if (bind_to == BindTo::none || local_size <= 0) return out;
  const auto ranks = static_cast<std::size_t>(local_size);
  const bool has_whole_cores = ranks <= size_of(host.caches);
  const std::vector<CacheCores> caches = has_whole_cores ? host.caches : units_of(host.caches);
  const std::size_t cores = size_of(caches);
  const bool is_short = host.quota > 0 && host.quota < static_cast<double>(cores);
  const std::size_t usable =
      is_short ? std::max<std::size_t>(1, static_cast<std::size_t>(std::floor(host.quota))) : cores;
  if (ranks > 1 || is_short) out.threads = static_cast<int>(std::max<std::size_t>(1, usable / ranks));
  if (ranks > usable) {
    out.words =
        fmt::format("not bound, because {} share {}{}", counted(ranks, "rank"), counted(usable, "core"),
                    is_short ? fmt::format(" (the control group's quota is {:g})", host.quota) : "");
  } else if (bind_to == BindTo::automatic && is_short) {
    out.words = fmt::format(
        "not bound, because the control group limits CPU time to {:g} cores and names no cores", host.quota);
  } else if (bind_to == BindTo::automatic && host.is_whole_host && ranks < cores) {
    out.words = fmt::format(
        "not bound, because {} {} not fill this host's {} cores, and another job may run here (--bind-to "
        "core binds them)",
        counted(ranks, "rank"), ranks == 1 ? "does" : "do", cores);
  } else if (bind_to == BindTo::automatic && host.is_guessed) {
    out.words =
        "not bound, because this build cannot find out which processors share a core (built without hwloc)";
  } else {
    out.units = shares_of(caches, ranks, cores / ranks);
    out.words = fmt::format("each is bound to {} of {} cores", cores / ranks, cores);
  }
  return out;
}

}  // namespace dabke::launcher
