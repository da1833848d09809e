// The hosts of a job, and the way in which their agents are started.
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
  bool is_allocated = false;           // assigned by a batch system
  std::string here;                    // the name of this host; empty: it is not in the job
  std::vector<std::string> own_names;  // all names given for this host, if there are several
  bool by_slurm = false;               // srun starts the agents of other hosts; else ssh
  std::string slurm_job;               // "Slurm job 4711", if srun does
  std::vector<Host> slurm_hosts;       // where srun can start agents
};

/// Returns the hosts from -H, from a host file, or from the batch system in whose job dabkerun runs; without
/// them, this host. With a discovery script, no host is known yet, also inside of a batch job. Errors name
/// the flag, or the batch system's variable.
Result<JobHosts> hosts_of_job(const Options& options, const Environment& environment);

}  // namespace dabke::launcher
