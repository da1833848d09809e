// Launchers that start several processes and do not tell them where to meet. A process that one of them has
// started as one of several must not take itself for the whole job.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/settings/config.h"

namespace dabke::bootstrap {

/// The most ranks, or processes of which some are a job.
inline constexpr int kMostProcesses = 1 << 20;

/// What a launcher that is not ours says of this process.
struct OtherLauncher {
  std::string name;      // "torchrun"
  std::string evidence;  // "WORLD_SIZE is 2 and RANK is 1"
  int rank = 0;
  int size = 1;
  bool size_is_known = true;  // false: size is the least that it can be
  std::string remedy = {};    // how its ranks meet, where there is a way of its own
};

/// The innermost launcher that has left its traces in the environment; nothing where none has. A Slurm
/// allocation without a step (salloc, a batch script) is no trace: there the program runs once.
std::optional<OtherLauncher> find_other_launcher(const Environment& environment);

/// What init says where such a launcher has started more than one process and they cannot meet.
Status cannot_meet(const OtherLauncher& launcher);

}  // namespace dabke::bootstrap
