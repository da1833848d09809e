// The surroundings of a job, apart from its command line: all that plan_job() reads of the process, of its
// terminals and of the system.
#pragma once

#include <sys/resource.h>

#include <functional>
#include <string>
#include <vector>

#include "launcher/cli/flags/options.h"
#include "launcher/cli/job_hosts.h"
#include "launcher/process/program.h"
#include "launcher/process/supervisor.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

struct Surroundings {
  std::vector<std::string> environment;  // NAME=value
  Result<std::string> own_program = std::string();
  bool is_stdout_terminal = false, is_stderr_terminal = false;
  rlim_t most_descriptors = RLIM_INFINITY;  // the hard limit
  rlim_t inherited_descriptors = 0;         // open when dabkerun started, apart from the standard streams

  std::function<std::string()> directory;  // the working directory; throws if it no longer exists
  std::function<Result<JobHosts>(const Options& options)> find_hosts;
  /// Searches like find_program().
  std::function<ProgramSearch(const std::string& name, const std::string& path_variable)> find_program;
};

/// Returns the surroundings of this process, which has one thread. `inherited` is from prepare_process().
Surroundings own_surroundings(const InheritedState& inherited);

}  // namespace dabke::launcher
