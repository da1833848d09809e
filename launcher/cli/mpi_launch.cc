#include "launcher/cli/mpi_launch.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/job/forwarded_environment.h"
#include "launcher/process/program.h"
#include "launcher/reach/shell_words.h"

extern char** environ;

namespace dabke::launcher {
namespace {

/// Returns no words if the line does not split: parse_command_line() has refused such lines.
std::vector<std::string> words_in(const std::string& text) {
  auto words = split_shell_words(text);
  return words.is_ok() ? words.take() : std::vector<std::string>();
}

bool has_blank(const std::string& word) { return word.find_first_of(" \t\n") != std::string::npos; }

struct Refused {
  bool is_given;
  std::string_view flag, instead;
};

/// Returns an error for the first flag that mpirun cannot honour.
Status check_flags(MpiKind kind, const Options& options) {
  const std::array refused{
      Refused{!options.output_directory.empty(), "--output-filename",
              "redirect the output of each rank in a script"},
      Refused{options.pty.has_value(), options.pty.value_or(false) ? "--pty" : "--no-pty", "leave it out"},
      Refused{options.top, "--top", "use --top-port 0 and dabke-timeline top"},
      Refused{!options.remote_shell.empty(), "--remote-shell", "use --mpi-args"},
      Refused{!options.remote_dabkerun.empty(), "--remote-dabkerun",
              "leave it out: dabkerun does not run on other hosts"},
      Refused{options.grace.has_value(), "--grace-period", "leave it out"},
      Refused{options.bind_to == BindTo::automatic, "--bind-to auto", "choose core or none"},
      Refused{std::ranges::any_of(options.variables, [](const auto& each) { return !each.ranks.empty(); }),
              "-x NAME@RANKS=VALUE", "give all ranks one value"},
      Refused{std::ranges::any_of(words_in(options.ssh_arguments), has_blank),
              "--ssh-args with a space in an argument", "put it into ~/.ssh/config"},
      Refused{options.timestamps && kind == MpiKind::hydra, "--prefix-output-with-timestamp", "leave it out"},
  };
  for (const Refused& each : refused) {
    if (each.is_given) {
      return {Code::invalid_argument,
              fmt::format("{}: not supported with --launcher mpi, because mpirun of {} starts the ranks: {}",
                          each.flag, kind == MpiKind::hydra ? "MPICH" : "Open MPI", each.instead)};
    }
  }
  return {};
}

/// Returns the hosts in the form that both mpiruns accept: a:4,b:2.
std::string hosts_of(const std::vector<RankPlacement>& placements) {
  std::string hosts;
  for (const RankPlacement& placement : placements) {
    if (placement.local_rank == 0)
      hosts += fmt::format("{}{}:{}", hosts.empty() ? "" : ",", placement.host, placement.local_size);
  }
  return hosts;
}

std::string shell_flags(const Options& options) {
  std::string text;
  const auto add = [&text](std::string_view flag, const std::string& value) {
    if (!value.empty()) text += fmt::format("{}{}{}", text.empty() ? "" : " ", flag, value);
  };
  add("-p ", options.ssh_port);
  add("-i ", options.ssh_identity_file);
  add("-l ", options.ssh_user);
  add("", fmt::format("{}", fmt::join(words_in(options.ssh_arguments), " ")));
  return text;
}

void add_open_mpi_flags(const Options& options, const std::vector<std::string>& names, MpiCommand& command) {
  auto& words = command.words;
  words.insert(words.end(),
               {"--map-by", "slot", "--bind-to", options.bind_to == BindTo::core ? "core" : "none"});
  if (options.prefix) words.emplace_back("--tag-output");
  if (options.timestamps) words.emplace_back("--timestamp-output");
  if (!options.stdin_to_rank_0) words.insert(words.end(), {"--stdin", "none"});
  if (options.verbose) words.emplace_back("--display-map");
  if (const std::string flags = shell_flags(options); !flags.empty())
    words.insert(words.end(), {"--mca", "plm_rsh_args", flags});
  for (const std::string& name : names) words.insert(words.end(), {"-x", name});
}

/// Needs no flags for variables: Hydra forwards every variable.
void add_hydra_flags(const Options& options, MpiCommand& command) {
  auto& words = command.words;
  words.insert(words.end(), {"-bind-to", options.bind_to == BindTo::core ? "core" : "none"});
  if (options.prefix) words.emplace_back("-prepend-rank");
  if (!options.stdin_to_rank_0) words.insert(words.end(), {"-s", "none"});
  if (options.verbose) words.emplace_back("-verbose");
  if (const std::string flags = shell_flags(options); !flags.empty()) {
    words.insert(words.end(), {"-launcher", "ssh"});
    command.variables.emplace_back("HYDRA_LAUNCHER_EXTRA_ARGS", flags);
  }
}

std::string output_of(const std::string& command) {
  std::string text;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "re"), ::pclose);
  std::array<char, 4096> chunk;
  while (pipe && std::fgets(chunk.data(), chunk.size(), pipe.get()) != nullptr) text += chunk.data();
  return text;
}

}  // namespace

Result<MpiKind> mpi_kind_of(std::string_view version_text) {
  if (version_text.find("HYDRA") != std::string_view::npos) return MpiKind::hydra;
  if (version_text.find("Open MPI") != std::string_view::npos ||
      version_text.find("OpenRTE") != std::string_view::npos)
    return MpiKind::open_mpi;
  return Status(Code::invalid_argument,
                fmt::format("--launcher mpi: mpirun is neither MPICH's nor Open MPI's; its --version prints "
                            "'{}': start the program with it yourself, or choose another --launcher",
                            version_text.substr(0, version_text.find('\n'))));
}

Result<MpiCommand> mpi_command(MpiKind kind, const std::string& program, const Options& options,
                               const std::vector<RankPlacement>& placements,
                               const std::vector<std::string>& environment) {
  DABKE_RETURN_IF_ERROR(check_flags(kind, options));
  MpiCommand command{{program, "-np", std::to_string(placements.size())}, options.knobs};
  for (const GivenVariable& each : options.variables) {
    if (each.value) command.variables.emplace_back(each.name, *each.value);
  }
  const std::string hosts = hosts_of(placements);
  command.words.insert(command.words.end(), {kind == MpiKind::hydra ? "-hosts" : "-H", hosts});
  if (kind == MpiKind::hydra) {
    add_hydra_flags(options, command);
  } else {
    std::vector<std::string> names;
    for (const std::string& variable : forwarded_environment(environment)) {
      // Open MPI forwards its own variables itself.
      const std::string name = variable.substr(0, variable.find('='));
      if (!name.starts_with("OMPI_") && !name.starts_with("_")) names.push_back(name);
    }
    for (const auto& [name, value] : options.knobs) names.push_back(name);
    for (const GivenVariable& each : options.variables) names.push_back(each.name);
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    add_open_mpi_flags(options, names, command);
  }
  const std::vector<std::string> further = words_in(options.mpi_arguments);
  command.words.insert(command.words.end(), further.begin(), further.end());
  command.words.insert(command.words.end(), options.command.begin(), options.command.end());
  return command;
}

Result<MpiCommand> find_mpi_command(const Options& options, const std::vector<RankPlacement>& placements) {
  const std::string path = process_environment()("PATH").value_or(kStandardPath);
  for (const std::string program : {"mpirun", "mpiexec"}) {
    if (find_program(program, path).path.empty()) continue;
    DABKE_ASSIGN_OR_RETURN(const MpiKind kind, mpi_kind_of(output_of(program + " --version 2>&1")));
    std::vector<std::string> environment;
    for (char** each = environ; *each != nullptr; ++each) environment.emplace_back(*each);
    return mpi_command(kind, program, options, placements, environment);
  }
  return Status(Code::invalid_argument,
                "--launcher mpi: neither mpirun nor mpiexec is in PATH: install MPICH or Open MPI, or choose "
                "another --launcher");
}

int become_mpirun(const MpiCommand& command) {
  for (const auto& [name, value] : command.variables) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : command.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  fmt::print(stderr, "dabkerun: {}\n",
             system_error(fmt::format("cannot run {}", command.words[0]), errno).message());
  return 1;
}

}  // namespace dabke::launcher
