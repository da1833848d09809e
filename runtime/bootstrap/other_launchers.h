// Launchers that start several processes and give them no place to meet. A process that is one of several
// must not take itself for the whole job.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/settings/config.h"

namespace dabke::bootstrap {

/// The most ranks of a job, or processes of which some are a job.
inline constexpr int kMostProcesses = 1 << 20;

/// The facts about this process from the variables of another launcher.
struct OtherLauncher {
  std::string name;      // "torchrun"
  std::string evidence;  // "WORLD_SIZE is 2 and RANK is 1"
  int rank = 0;
  int size = 1;
  bool size_is_known = true;  // false: size is a lower bound
  std::string remedy = {};    // the launcher's own way for its ranks to meet; empty: none
};

/// The innermost launcher whose variables are in the environment; nothing if there is none. A Slurm
/// allocation without a step (salloc, a batch script) does not count, because the program runs once there.
std::optional<OtherLauncher> find_other_launcher(const Environment& environment);

/// The error of init when such a launcher has started several processes that cannot meet.
Status cannot_meet(const OtherLauncher& launcher);

}  // namespace dabke::bootstrap
