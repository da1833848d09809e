#include "launcher/cli/flags/flag_parser.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "runtime/base/settings/config.h"

namespace dabke::launcher {
namespace {

constexpr const char* kKnobGroup = "Knobs";

bool is_list(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

Flag flag_of(const CLI::Option& option) {
  return {.names = option.get_lnames(),
          .short_names = option.get_snames(),
          .group = option.get_group(),
          .value_name = option.get_type_name(),
          .description = option.get_description(),
          .takes_value = option.get_items_expected_max() > 0,
          .may_be_repeated = is_list(option),
          .is_knob = option.get_group() == kKnobGroup};
}

}  // namespace

std::string opposite_of(std::string_view flag) {
  return flag.starts_with("no-") ? std::string(flag.substr(3)) : "no-" + std::string(flag);
}

class FlagParser::App : public CLI::App {
 public:
  explicit App(RawOptions& raw) : CLI::App("dabkerun") {
    set_help_flag();
    add_processes(raw);
    add_remote(raw);
    add_output(raw);
    add_information(raw);
    add_doctor(raw);
    add_horovod(raw);
    for (const Knob& knob : knobs()) add_knob(knob, raw.knobs.emplace_back());
    // The last of two wins, as everywhere.
    for (CLI::Option* option : get_options()) {
      option->multi_option_policy(is_list(*option) ? CLI::MultiOptionPolicy::TakeAll
                                                   : CLI::MultiOptionPolicy::TakeLast);
    }
  }

 private:
  // A group of --help each, in its order.
  void add_processes(RawOptions& raw);
  void add_remote(RawOptions& raw);
  void add_output(RawOptions& raw);
  void add_information(RawOptions& raw);
  void add_doctor(RawOptions& raw);
  void add_horovod(RawOptions& raw);
  void add_knob(const Knob& knob, std::string& value);
};

FlagParser::FlagParser() : app_(std::make_unique<App>(raw)) {
  for (const CLI::Option* option : std::as_const(*app_).get_options()) flags_.push_back(flag_of(*option));
}

FlagParser::~FlagParser() = default;

const Flag* FlagParser::find(std::string_view spelled) const {
  const bool is_long = spelled.starts_with("--");
  const std::string_view name = spelled.substr(is_long ? 2 : 1);
  const auto flag = std::ranges::find_if(flags_, [&](const Flag& each) {
    const auto& names = is_long ? each.names : each.short_names;
    return std::ranges::find(names, name) != names.end();
  });
  return flag == flags_.end() ? nullptr : &*flag;
}

Status FlagParser::parse(std::vector<std::string> words) {
  std::ranges::reverse(words);  // as the library wants them
  try {
    app_->parse(std::move(words));
  } catch (const CLI::Error& error) {
    std::string text = error.what();
    std::ranges::replace(text, '\n', ' ');
    return {Code::invalid_argument, text};
  }
  return {};
}

void FlagParser::App::add_processes(RawOptions& raw) {
  const std::string processes = "Processes";
  add_option("--num-proc", raw.num_proc,
             "How many ranks to start. Without it, one for each slot of the hosts.")
      ->type_name("N")
      ->group(processes);
  add_option("-H,--hosts", raw.hosts,
             "Hosts and how many ranks each takes, as in server1:4,server2:4. Those other than this host are "
             "reached by ssh. Without it, those that Slurm, PBS or LSF has given, else this host takes all.")
      ->type_name("NAME:SLOTS,...")
      ->group(processes);
  add_option("--hostfile", raw.hostfile, "A file with a line such as 'localhost slots=4' for each host.")
      ->type_name("FILE")
      ->group(processes);
  add_option(
      "--config-file", raw.config_file,
      "A file of YAML with what flags say, as in 'cycle-time-ms: 2'. Flags and variables go before it.")
      ->type_name("FILE")
      ->group(processes);
  add_option("--stdin", raw.stdin_to,
             "Who reads dabkerun's standard input: rank 0, or none. The others read nothing. Default: 0.")
      ->type_name("0|none")
      ->group(processes);
  add_option(
      "--bind-to", raw.bind_to,
      "core: bind each rank to its own equal share of the cores, within one cache where that can be, unless "
      "there are more ranks than cores. auto: so, but not where another job may share the host: where the "
      "ranks do not fill one that dabkerun may use all of, or a control group grants less; nor in a build "
      "without hwloc (--check-build). Both set OMP_NUM_THREADS to each rank's share of the cores, unless it "
      "is set. --verbose says what is done. Default: auto; with --launcher mpi, none.")
      ->type_name("auto|core|none")
      ->group(processes);
  add_option("-x,--env", raw.variables,
             "A variable for the ranks, which get those of dabkerun in any case; may be given again. NAME: "
             "also to other hosts, "
             "where what belongs to this login is left out. NAME=VALUE: with another value. "
             "NAME@RANKS=VALUE: for some ranks, as in MODE@0-2,5=fast.")
      ->type_name("NAME[=VALUE]")
      ->group(processes);
  add_option(
      "--grace-period", raw.grace_period,
      "How many seconds ranks that are told to end may take before they are killed. Default: 4, and 30 when "
      "dabkerun was sent SIGTERM.")
      ->type_name("SECONDS")
      ->group(processes);
}

void FlagParser::App::add_remote(RawOptions& raw) {
  const std::string remote = "Other hosts";
  add_option("--launcher", raw.launcher,
             "Who brings dabkerun to other hosts: ssh, or slurm (one srun). auto: slurm inside a Slurm job "
             "whose hosts "
             "these are, else ssh. mpi: mpirun starts the ranks, and all is left to it. Default: auto.")
      ->type_name("auto|ssh|slurm|mpi")
      ->group(remote);
  add_option("--mpi-args", raw.mpi_arguments, "Further arguments for mpirun, quoted as in a shell.")
      ->type_name("TEXT")
      ->group(remote);
  add_option("-p,--ssh-port", raw.ssh_port, "The port on which other hosts listen for ssh.")
      ->type_name("PORT")
      ->group(remote);
  add_option("-i,--ssh-identity-file", raw.ssh_identity_file, "The private key with which ssh logs in.")
      ->type_name("FILE")
      ->group(remote);
  add_option("--ssh-user", raw.ssh_user, "The user as whom ssh logs in.")->type_name("NAME")->group(remote);
  add_option("--ssh-args", raw.ssh_arguments,
             "Further arguments for ssh, quoted as in a shell, as in '-o ConnectTimeout=5'.")
      ->type_name("TEXT")
      ->group(remote);
  add_option("--remote-dabkerun", raw.remote_dabkerun,
             "Where dabkerun is on other hosts. Without it, where it is on this one.")
      ->type_name("PATH")
      ->group(remote);
  add_option(
      "--remote-shell", raw.remote_shell,
      "What stands in for ssh: called with a host and one command line, which it hands to a shell there.")
      ->type_name("COMMAND")
      ->group(remote);
}

void FlagParser::App::add_output(RawOptions& raw) {
  const std::string output = "Output";
  add_option("--output-filename", raw.output_directory,
             "Also keep what each rank prints in DIR/rank.<rank>/stdout and stderr, as it came, "
             "without prefixes.")
      ->type_name("DIR")
      ->group(output);
  add_flag("--prefix-output-with-timestamp", raw.timestamps, "Begin each line with the time.")->group(output);
  add_flag("--no-prefix", raw.no_prefix, "Print the lines of ranks without [rank]<stdout>: before them.")
      ->group(output);
  add_flag(
      "--pty{1},--no-pty{0}", raw.pty,
      "Make each rank's stdout a pseudo-terminal, on which programs print each line at once and in colours; "
      "or a pipe. Default: a pseudo-terminal if dabkerun's own stdout is a terminal.")
      ->group(output);
  add_flag("--top", raw.top,
           "Show below the output, once a second, what each rank does: step, who waits for it, MB/s, queue.")
      ->group(output);
  add_flag("--verbose", raw.verbose, "Say on stderr what is started where and how it ends.")->group(output);
}

void FlagParser::App::add_information(RawOptions& raw) {
  const std::string information = "Information";
  add_flag("--dry-run", raw.dry_run, "Print what would run where, and start nothing.")->group(information);
  add_flag("-h,--help", raw.help, "Print this text; with a word after it, the flags of that topic.")
      ->group(information);
  add_flag("-v,--version", raw.version, "Print the version.")->group(information);
  add_flag("--check-build", raw.check_build, "Print what this build has.")->group(information);
  add_flag("--print-knobs", raw.print_knobs, "Print the table of knobs as Markdown.")->group(information);
  add_flag("--print-completion", raw.print_completion, "Print a script that completes dabkerun in bash.")
      ->group(information);
}

void FlagParser::App::add_doctor(RawOptions& raw) {
  const std::string doctor = "Doctor";
  add_flag("--json", raw.json, "Print what dabkerun doctor has found as JSON.")->group(doctor);
}

void FlagParser::App::add_horovod(RawOptions& raw) {
  const std::string other = "Accepted for Horovod";
  add_flag("--gloo", raw.gloo, "No effect: gloo is there without MPI.")->group(other);
  add_flag("--mpi", raw.mpi, "The same as --launcher mpi.")->group(other);
  add_flag("--disable-cache", raw.disable_cache, "No effect: nothing is cached between launches.")
      ->group(other);
}

void FlagParser::App::add_knob(const Knob& knob, std::string& value) {
  const std::string flag(knob.flag);
  if (knob.is_switch()) {
    add_flag(fmt::format("--{0}{{1}},--{1}{{0}}", flag, opposite_of(flag)), value)->group(kKnobGroup);
  } else {
    add_option("--" + flag, value)->group(kKnobGroup);
  }
}

}  // namespace dabke::launcher
