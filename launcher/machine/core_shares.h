// The cores that each rank of a host gets, and the number of threads that suits it. Pure.
#pragma once

#include <string>
#include <vector>

namespace dabke::launcher {

using Core = std::vector<int>;         // its processing units, as the system numbers them
using CacheCores = std::vector<Core>;  // the cores that share a last-level cache

/// The cores that the agent of a host may use.
struct HostCores {
  std::vector<CacheCores> caches;
  // Each unit counts as a core, and all as one cache, because their topology is unknown.
  bool is_guessed = false;
  bool is_whole_host = false;  // the process is not restricted to a part of the host
  double quota = 0;            // of processors, by the control group; 0: none
};

/// automatic: binds ranks if no other job can be meant to share the cores, and if neighbouring cores are
/// known. core: binds if there are enough cores. none: binds and sets nothing.
enum class BindTo { automatic, core, none };

struct CoreShares {
  std::vector<std::vector<int>> units;  // by local rank; empty: no rank is bound
  int threads = 0;                      // of each rank, for OMP_NUM_THREADS; 0: unchanged
  std::string words;                    // how, or why not
};

/// Shares the cores equally. A rank's cores are neighbours, within one last-level cache if they fit. Shares
/// are whole cores if there are enough.
CoreShares share_cores(const HostCores& host, int local_size, BindTo bind_to);

}  // namespace dabke::launcher
