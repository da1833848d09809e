// What the command line and the environment say of how a job is set up, beside its hosts and ranks.
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

namespace dabke {

/// What the launcher itself needs of the knobs, as the ranks will have them.
Result<Config> config_of(const Options& options);

Result<RemoteShell> shell_of(const Options& options);

struct Secrets {
  JobId id{};
  JobKey key{};
};
Result<Secrets> make_secrets();

/// NAME=value each.
std::vector<std::string> own_environment();

/// Says on stderr which names are this host, and of a batch system's hosts whose they are and who brings agents there.
void tell_hosts(const JobHosts& hosts);

/// For hosts that are not this one. By Slurm, agents come to where this host listens.
Result<AgentStarter> agent_starter(const RemoteShell& shell, const std::vector<std::string>& elsewhere,
                                   bool by_slurm, const Secrets& secrets, const Config& config);

}  // namespace dabke
