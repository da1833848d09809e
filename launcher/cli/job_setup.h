// The setup of a job from the command line and the environment, apart from its hosts and ranks.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/flags/options.h"
#include "launcher/cli/job_hosts.h"
#include "launcher/reach/agent_starter.h"
#include "launcher/reach/remote_shell.h"
#include "runtime/base/hmac.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

/// Returns the settings that the launcher itself needs, with the values that the ranks get. `environment` is
/// dabkerun's.
Result<Config> config_of(const Options& options, const Environment& environment);

/// Returns the file that this process runs.
Result<std::string> own_program();

/// `own` is the program for hosts without a configured one. An error of `own` matters only for those hosts.
Result<RemoteShell> shell_of(const Options& options, const Result<std::string>& own);

struct Secrets {
  JobId id{};
  JobKey key{};
};
Result<Secrets> make_secrets();

/// Each as NAME=value.
std::vector<std::string> own_environment();
/// A lookup in such variables.
Environment environment_of(std::vector<std::string> variables);

/// Returns lines that list the names of this host. If a batch system assigned the hosts, they also name it,
/// the number of hosts and slots, and the way in which agents start there.
std::vector<std::string> host_notices(const JobHosts& hosts);

/// Returns the starter of agents on hosts other than this one. Under Slurm, agents connect to the addresses
/// of this host. One srun starts all, or, in an elastic job, one each.
Result<AgentStarter> agent_starter(const RemoteShell& shell, const std::vector<std::string>& elsewhere,
                                   bool by_slurm, bool is_elastic, const Secrets& secrets,
                                   const Config& config);

}  // namespace dabke::launcher
