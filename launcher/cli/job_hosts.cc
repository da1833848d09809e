#include "launcher/cli/job_hosts.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "launcher/hosts/allocation.h"
#include "launcher/process/program.h"

namespace dabke::launcher {
namespace {

bool has_script(const Options& options) {
  return options.elastic && !options.elastic->discovery_script.empty();
}

/// True if srun starts the agents. Fails only if the command line requests it and it is impossible.
Result<bool> starts_by_slurm(const Options& options, const JobHosts& job,
                             const std::optional<Allocation>& allocation, const Environment& environment) {
  if (options.launcher == "ssh" || options.launcher == "mpi" ||
      (options.launcher == "auto" && !options.remote_shell.empty()))
    return false;
  const bool is_asked = options.launcher == "slurm";
  const auto refuse = [&](const std::string& why) {
    return is_asked ? Result<bool>(Status(Code::invalid_argument, "--launcher slurm: " + why))
                    : Result<bool>(false);
  };
  if (!allocation || allocation->scheduler != Allocation::Scheduler::slurm)
    return refuse("not inside a Slurm job: start dabkerun with salloc or sbatch");
  const auto outside = std::ranges::find_if(job.hosts, [&](const Host& host) {
    return host.name != job.here &&
           std::ranges::find(allocation->hosts, host.name, &Host::name) == allocation->hosts.end();
  });
  if (outside != job.hosts.end())
    return refuse(fmt::format("host {} does not belong to {}: leave -H out, or use --launcher ssh",
                              outside->name, allocation->job));
  if (find_program("srun", environment("PATH").value_or(kStandardPath)).path.empty())
    return refuse("srun is not in PATH");
  return true;
}

/// The hosts that flags name, or else the discovery script, the batch system or nobody.
Status read_hosts(const Options& options, const std::optional<Allocation>& allocation, JobHosts& found) {
  const auto source = [&](std::string_view flag, std::string_view key) {
    return options.hosts_from.empty() ? std::string(flag)
                                      : fmt::format("--config-file {}: {}", options.hosts_from, key);
  };
  if (!options.hosts.empty()) {
    found.source = source("-H", "hosts");
    DABKE_ASSIGN_OR_RETURN(found.hosts, parse_host_list(options.hosts, found.source));
  } else if (!options.hostfile.empty()) {
    const std::string flag = source("--hostfile", "hostfile");
    found.source = fmt::format("{} {}", flag, options.hostfile);
    DABKE_ASSIGN_OR_RETURN(found.hosts, read_hostfile(options.hostfile, flag));
  } else if (has_script(options)) {
    found.source = "--host-discovery-script";
  } else if (allocation) {
    found.hosts = allocation->hosts;
    found.source = allocation->job;
    found.is_allocated = true;
  } else if (options.elastic) {
    const ElasticOptions& elastic = *options.elastic;
    const int most = std::max({options.num_proc, elastic.min_np, elastic.max_np});
    found.hosts = {{this_host_name(), most + elastic.spares}};
    found.source = "this host";
  } else if (options.num_proc == 0) {
    return {Code::invalid_argument, "-np is missing: give the number of ranks, as in dabkerun -np 2 ./train"};
  } else {
    found.hosts = {{this_host_name(), options.num_proc}};
    found.source = "this host";
  }
  return {};
}

}  // namespace

Result<JobHosts> hosts_of_job(const Options& options, const Environment& environment) {
  JobHosts found;
  const bool is_named = !options.hosts.empty() || !options.hostfile.empty() || has_script(options);
  auto allocation = find_allocation(environment);
  if (!allocation.is_ok() && (!is_named || options.launcher == "slurm")) return allocation.status();
  const std::optional<Allocation> given = allocation.is_ok() ? allocation.take() : std::nullopt;
  DABKE_RETURN_IF_ERROR(read_hosts(options, given, found));
  // Names of hosts without ranks are not resolved.
  if (!found.is_allocated && !options.elastic)
    found.hosts = first_hosts(merge_hosts(found.hosts), options.num_proc);
  MergedHosts merged = merge_this_host(found.hosts);
  found.hosts = std::move(merged.hosts);
  found.here = std::move(merged.here);
  found.own_names = std::move(merged.names);
  DABKE_ASSIGN_OR_RETURN(found.by_slurm, starts_by_slurm(options, found, given, environment));
  if (found.by_slurm) found.slurm_job = given->job;
  if (found.by_slurm && has_script(options)) {
    merged = merge_this_host(given->hosts);
    found.slurm_hosts = std::move(merged.hosts);
    found.here = std::move(merged.here);
  } else if (found.by_slurm) {
    found.slurm_hosts = found.hosts;
  }
  if (found.here.empty() && options.elastic) found.here = this_host_name();
  return found;
}

}  // namespace dabke::launcher
