// The hosts that a batch system has assigned to the job in which dabkerun runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/hosts/hosts.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

struct Allocation {
  enum class Scheduler { slurm, pbs, lsf };
  Scheduler scheduler = Scheduler::slurm;
  std::string job;          // "Slurm job 4711"
  std::vector<Host> hosts;  // may contain a host several times
};

/// Returns nothing outside of a job of Slurm, PBS or LSF. Fails if the list of hosts does not parse; the
/// error names the variable. For PBS it reads the file that PBS_NODEFILE names.
///   Slurm  SLURM_JOB_NODELIST; slots: SLURM_TASKS_PER_NODE, else SLURM_JOB_CPUS_PER_NODE by
///          SLURM_CPUS_PER_TASK
///   PBS    PBS_NODEFILE: a line for each slot
///   LSF    LSB_HOSTS: a name for each slot; else LSB_MCPU_HOSTS: names and slots in turn
Result<std::optional<Allocation>> find_allocation(const Environment& environment);

}  // namespace dabke::launcher
