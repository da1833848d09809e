// The output of --dry-run.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/flags/options.h"
#include "launcher/cli/job_hosts.h"
#include "launcher/hosts/placement.h"
#include "launcher/reach/remote_shell.h"

namespace dabke::launcher {

/// Describes what would run where, and how it would be started there. Contains no secrets: there is no job
/// yet.
std::string dry_run_text(const Options& options, const JobHosts& hosts,
                         const std::vector<RankPlacement>& placements, const RemoteShell& shell);

}  // namespace dabke::launcher
