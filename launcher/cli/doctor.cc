#include "launcher/cli/doctor.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "launcher/cli/job_hosts.h"
#include "launcher/cli/job_setup.h"
#include "launcher/cli/launch.h"
#include "launcher/doctor/checkup.h"
#include "launcher/doctor/findings.h"
#include "launcher/hosts/allocation.h"
#include "launcher/hosts/hosts.h"
#include "launcher/process/process_setup.h"
#include "launcher/reach/local_agent.h"

namespace dabke::launcher {
namespace {

int fail(int exit_code, const std::string& message) {
  fmt::print(stderr, "dabkerun: {}\n", message);
  return exit_code;
}

/// Returns the hosts to examine. If no host is named, this is the local host, with as many slots as
/// processors.
Result<JobHosts> hosts_to_examine(Options options) {
  const Environment environment = process_environment();
  const auto allocation = find_allocation(environment);
  const bool is_named = !options.hosts.empty() || !options.hostfile.empty();
  const bool is_allocated = !allocation.is_ok() || allocation->has_value();
  if (!is_named && !is_allocated && options.num_proc == 0)
    options.num_proc = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return hosts_of_job(options, environment);
}

Result<CheckupReport> examine(const Options& options, const JobHosts& hosts, const Config& config,
                              const InheritedState& inherited) {
  DABKE_ASSIGN_OR_RETURN(const RemoteShell shell, shell_of(options, own_program()));
  DABKE_ASSIGN_OR_RETURN(const Secrets secrets, make_secrets());
  std::vector<std::string> elsewhere;
  for (const Host& host : hosts.hosts) {
    if (host.name != hosts.here) elsewhere.push_back(host.name);
  }
  DABKE_ASSIGN_OR_RETURN(AgentStarter starter,
                         agent_starter(shell, elsewhere, hosts.by_slurm, false, secrets, config));
  Checkup checkup(std::move(starter), {.start_timeout_s = config.start_timeout,
                                       .peer_timeout_s = config.peer_timeout,
                                       .job_id = to_hex(secrets.id),
                                       .job_key = to_hex(secrets.key),
                                       .key_has_come = hosts.by_slurm,
                                       .network_interfaces = config.network_interface,
                                       .progress = [](std::string_view line) {
                                         fmt::print(stderr, "dabkerun: doctor: {}\n", line);
                                       }});
  for (const Host& host : hosts.hosts) {
    const bool is_here = host.name == hosts.here;
    AgentLink& link = checkup.add_host(host, is_here);
    if (!is_here) continue;
    DABKE_ASSIGN_OR_RETURN(AgentProcess agent, start_local_agent({}, Fd(), inherited));
    link.start(std::move(agent));
  }
  return checkup.run();
}

}  // namespace

int run_doctor(const Options& options) {
  const InheritedState inherited = prepare_process();
  const auto hosts = hosts_to_examine(options);
  if (!hosts.is_ok()) return fail(2, hosts.status().message());
  for (const std::string& notice : host_notices(*hosts)) fmt::print(stderr, "dabkerun: {}\n", notice);
  const auto config = config_of(options, process_environment());
  if (!config.is_ok()) return fail(2, config.status().message());
  const auto report = examine(options, *hosts, *config, inherited);
  if (!report.is_ok()) return fail(1, report.status().message());
  const int printed = print_text(options.json ? checkup_json(*report) : checkup_text(*report));
  if (printed != 0) return printed;
  return is_well(findings_of(*report)) ? 0 : 1;
}

}  // namespace dabke::launcher
