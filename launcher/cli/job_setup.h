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

namespace dabke::launcher {

/// What the launcher itself needs of the knobs, as the ranks will have them. `environment` is dabkerun's.
Result<Config> config_of(const Options& options, const Environment& environment);

/// The file that this process runs.
Result<std::string> own_program();

/// `own`: what hosts run that are not told another one; an error of it counts for those alone.
Result<RemoteShell> shell_of(const Options& options, const Result<std::string>& own);

struct Secrets {
  JobId id{};
  JobKey key{};
};
Result<Secrets> make_secrets();

/// NAME=value each.
std::vector<std::string> own_environment();
/// The same to look variables up in.
Environment environment_of(std::vector<std::string> variables);

/// Lines that say which names are this host, and of a batch system's hosts whose they are and who brings
/// agents there.
std::vector<std::string> host_notices(const JobHosts& hosts);

/// For hosts that are not this one. By Slurm, agents come to where this host listens.
Result<AgentStarter> agent_starter(const RemoteShell& shell, const std::vector<std::string>& elsewhere,
                                   bool by_slurm, const Secrets& secrets, const Config& config);

}  // namespace dabke::launcher
