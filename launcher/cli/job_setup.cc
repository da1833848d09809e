#include "launcher/cli/job_setup.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "launcher/hosts/hosts.h"
#include "launcher/reach/dialled_agents.h"
#include "runtime/base/text/counted.h"
#include "runtime/links/interfaces.h"

extern char** environ;

namespace dabke::launcher {

Result<Config> config_of(const Options& options, const Environment& environment) {
  const Environment given = [&](const std::string& name) -> std::optional<std::string> {
    const auto is_it = [&](const GivenVariable& each) {
      return each.ranks.empty() && each.value && each.name == name;
    };
    const auto last = std::ranges::find_if(options.variables.rbegin(), options.variables.rend(), is_it);
    return last == options.variables.rend() ? environment(name) : last->value;
  };
  DABKE_ASSIGN_OR_RETURN(Config config, config_from_environment(given));
  for (const auto& [name, value] : options.knobs) {
    const auto knob = std::ranges::find(knobs(), name, &Knob::env_name);
    DABKE_RETURN_IF_ERROR(set_knob(config, *knob, value, name));
  }
  return config;
}

Result<std::string> own_program() {
  std::error_code error;
  std::string program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return program;
  return Status(
      Code::transport,
      fmt::format("cannot find the path of dabkerun ({}): give it with --remote-dabkerun", error.message()));
}

Result<RemoteShell> shell_of(const Options& options, const Result<std::string>& own) {
  RemoteShell shell{.program = options.remote_shell,
                    .port = options.ssh_port,
                    .identity_file = options.ssh_identity_file,
                    .user = options.ssh_user,
                    .arguments = options.ssh_arguments,
                    .dabkerun = options.remote_dabkerun};
  if (!shell.dabkerun.empty()) return shell;
  if (!own.is_ok()) return own.status();
  shell.dabkerun = *own;
  return shell;
}

Result<Secrets> make_secrets() {
  Secrets secrets;
  DABKE_RETURN_IF_ERROR(random_bytes(secrets.id));
  DABKE_RETURN_IF_ERROR(random_bytes(secrets.key));
  return secrets;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) environment.emplace_back(*each);
  return environment;
}

Environment environment_of(std::vector<std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    for (const std::string& each : variables) {
      if (each.starts_with(name) && each.size() > name.size() && each[name.size()] == '=')
        return each.substr(name.size() + 1);
    }
    return std::nullopt;
  };
}

std::vector<std::string> host_notices(const JobHosts& hosts) {
  std::vector<std::string> notices;
  if (!hosts.own_names.empty()) notices.push_back(one_machine_notice(hosts.own_names));
  if (!hosts.is_allocated) return notices;
  int slots = 0;
  for (const Host& host : hosts.hosts) slots = add_slots(slots, host.slots);
  notices.push_back(fmt::format("{}: {}, {}; {} starts dabkerun on other hosts (--launcher)", hosts.source,
                                counted(hosts.hosts.size(), "host"), counted(slots, "slot"),
                                hosts.by_slurm ? "srun" : "ssh"));
  return notices;
}

Result<AgentStarter> agent_starter(const RemoteShell& shell, const std::vector<std::string>& elsewhere,
                                   bool by_slurm, bool is_elastic, const Secrets& secrets,
                                   const Config& config) {
  AgentStarter starter(shell);
  if (!by_slurm || elsewhere.empty()) return starter;
  DABKE_ASSIGN_OR_RETURN(const std::vector<links::HostAddress> own, links::candidate_addresses(config, ""));
  std::vector<links::SocketAddress> addresses;
  for (const links::HostAddress& each : own) addresses.push_back(each.address);
  const std::vector<std::string> environment = own_environment();
  DABKE_ASSIGN_OR_RETURN(
      auto dialled,
      DialledAgents::open({.command = is_elastic ? std::vector<std::string>()
                                                 : srun_command(shell.dabkerun, elsewhere, environment),
                           .hosts = elsewhere,
                           .job_id = to_hex(secrets.id),
                           .job_key = to_hex(secrets.key),
                           .listen_at = std::move(addresses),
                           .timeout_s = config.start_timeout}));
  if (is_elastic) {
    starter.dial_each(std::move(dialled), [dabkerun = shell.dabkerun, environment](const std::string& host) {
      return srun_command_for(host, dabkerun, environment);
    });
  } else {
    starter.dial(std::move(dialled));
  }
  return starter;
}

}  // namespace dabke::launcher
