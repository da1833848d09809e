// Which cores each rank of a host gets, and how many threads suit it. Pure.
#pragma once

#include <string>
#include <vector>

namespace dabke::launcher {

using Core = std::vector<int>;         // its processing units, as the system numbers them
using CacheCores = std::vector<Core>;  // that share a last-level cache

/// What the agent of a host may use.
struct HostCores {
  std::vector<CacheCores> caches;
  bool is_guessed = false;  // each unit stands for a core, and all for one cache, since nobody knows better
  bool is_whole_host = false;  // nobody has kept it to a part of the host
  double quota = 0;            // of processors, by the control group; 0: none
};

/// automatic: bound where no other job can be meant to share the cores, and where it is known which are neighbours.
/// core: wherever there are enough. none: nothing is bound or set.
enum class BindTo { automatic, core, none };

struct CoreShares {
  std::vector<std::vector<int>> units;  // by local rank; empty: nobody is bound
  int threads = 0;                      // of each rank, OMP_NUM_THREADS; 0: as it is
  std::string words;                    // how, or why not
};

/// Equal shares, neighbours together, within one last-level cache where they fit; whole cores where there are enough.
CoreShares share_cores(const HostCores& host, int local_size, BindTo bind_to);

}  // namespace dabke::launcher
