// The command line of dabkerun.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launcher/cli/flags/elastic_options.h"
#include "launcher/cli/flags/given_variables.h"
#include "launcher/machine/core_shares.h"
#include "launcher/process/supervisor.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/status.h"

namespace dabke::launcher {

enum class Action { run, doctor, help, version, check_build, print_knobs, print_completion };

struct Options {
  Action action = Action::run;
  int num_proc = 0;                       // 0: one rank for each slot of the hosts
  std::optional<ElasticOptions> elastic;  // nothing: a job of fixed size
  std::string hosts;                      // -H; empty: not given
  std::string hostfile;                   // empty: not given
  std::string hosts_from;         // the config file that gives one of the two above; empty: the command line
  std::string launcher = "auto";  // how agents are started on other hosts: auto, ssh, slurm, mpi
  std::string mpi_arguments;      // additional words for mpirun
  std::string output_directory;
  bool prefix = true;
  bool timestamps = false;
  std::optional<bool> pty;  // nothing: a pseudo-terminal if dabkerun's own stdout is a terminal
  bool stdin_to_rank_0 = true;
  bool dry_run = false;
  bool json = false;              // the output format of the doctor
  std::optional<BindTo> bind_to;  // nothing: automatic, and none under mpirun
  std::vector<GivenVariable> variables;
  std::optional<std::chrono::milliseconds> grace;
  bool verbose = false;
  bool top = false;                                                  // a table of what each rank does
  std::string ssh_port, ssh_identity_file, ssh_user, ssh_arguments;  // empty: not given
  std::string remote_dabkerun, remote_shell;
  std::vector<std::pair<std::string, std::string>> knobs;  // DABKE_X and its value, from flags
  std::vector<std::string> command;                        // for --help, the topic
};

/// Parses `arguments`, which are without the program's name. The command begins after --, or with the first
/// word that is neither a flag nor a flag's value. If the very first word is "doctor", that is the action,
/// and there is no command. A value in the file of --config-file counts if no flag and no variable of
/// `environment` sets it. The error is one line that names flag and value, and the remedy.
Result<Options> parse_command_line(std::span<const std::string> arguments, const Environment& environment);

}  // namespace dabke::launcher
