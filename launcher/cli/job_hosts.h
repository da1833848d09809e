// Where the hosts of a job come from, and who brings its agents there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/flags/options.h"
#include "launcher/hosts/hosts.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

struct JobHosts {
  std::vector<Host> hosts;             // each once
  std::string source;                  // "-H", "Slurm job 4711"
  bool is_allocated = false;           // a batch system has given them
  std::string here;                    // which of them is this one; empty: none
  std::vector<std::string> own_names;  // all that were given for this one, if there are several
  bool by_slurm = false;               // one srun brings the agents of other hosts; else ssh
};

/// From -H, a host file or the batch system in whose job dabkerun runs; without any of them, this host. Errors name the
/// flag, or the batch system's variable.
Result<JobHosts> hosts_of_job(const Options& options, const Environment& environment);

}  // namespace dabke::launcher
