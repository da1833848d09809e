// The command line of dabkerun.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launcher/cli/flags/given_variables.h"
#include "launcher/machine/core_shares.h"
#include "launcher/process/supervisor.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

enum class Action { run, doctor, help, version, check_build, print_knobs, print_completion };

struct Options {
  Action action = Action::run;
  int num_proc = 0;               // 0: one rank for each slot of the hosts
  std::string hosts;              // -H; empty: not given
  std::string hostfile;           // empty: not given
  std::string hosts_from;         // the config file that gives one of these; empty: the command line does
  std::string launcher = "auto";  // who brings agents to other hosts: auto, ssh, slurm, mpi
  std::string mpi_arguments;      // further words for mpirun
  std::string output_directory;
  bool prefix = true;
  bool timestamps = false;
  std::optional<bool> pty;  // nothing: where dabkerun's own stdout is a terminal
  bool stdin_to_rank_0 = true;
  bool dry_run = false;
  bool json = false;              // what the doctor prints
  std::optional<BindTo> bind_to;  // nothing: automatic, and by mpirun none
  std::vector<GivenVariable> variables;
  std::optional<std::chrono::milliseconds> grace;
  bool verbose = false;
  bool top = false;                                                  // a table of what each rank does
  std::string ssh_port, ssh_identity_file, ssh_user, ssh_arguments;  // empty: not given
  std::string remote_dabkerun, remote_shell;
  std::vector<std::pair<std::string, std::string>> knobs;  // DABKE_X and its value, from flags
  std::vector<std::string> command;                        // of --help, the topic
};

/// `arguments` without the program's name. Everything from the first word that is neither a flag nor a flag's
/// value, or after --, is the command. Where the very first word is "doctor", that is the action, and there is no command. The error is one line that names flag and value and says what to do. What the file
/// of --config-file says counts where no flag and no variable of `environment` says it.
Result<Options> parse_command_line(std::span<const std::string> arguments, const Environment& environment);

}  // namespace dabke::launcher
