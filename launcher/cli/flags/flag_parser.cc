#include "launcher/cli/flags/flag_parser.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "runtime/base/settings/config.h"

namespace dabke::launcher {
namespace {

constexpr const char* kKnobGroup = "Settings";
constexpr const char* kTwoWords = "MIN MAX";

bool is_list(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

Flag flag_of(const CLI::Option& option) {
  return {.names = option.get_lnames(),
          .short_names = option.get_snames(),
          .group = option.get_group(),
          .value_name = option.get_type_name(),
          .description = option.get_description(),
          .takes_value = option.get_items_expected_max() > 0,
          .takes_two_words = option.get_type_name() == kTwoWords,
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
    add_elastic(raw);
    add_remote(raw);
    add_output(raw);
    add_information(raw);
    add_doctor(raw);
    add_horovod(raw);
    for (const Knob& knob : knobs()) add_knob(knob, raw.knobs.emplace_back());
    // The last of two values wins, as usual.
    for (CLI::Option* option : get_options()) {
      option->multi_option_policy(is_list(*option) ? CLI::MultiOptionPolicy::TakeAll
                                                   : CLI::MultiOptionPolicy::TakeLast);
    }
  }

 private:
  // Each function adds one group of --help, in the order of --help.
  void add_processes(RawOptions& raw);
  void add_elastic(RawOptions& raw);
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
  std::ranges::reverse(words);  // the order that the library expects
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
             "Start N ranks. Default: one for each slot, if -H, a file or a batch system gives the hosts.")
      ->type_name("N")
      ->group(processes);
  add_option("-H,--hosts", raw.hosts,
             "List the hosts and how many ranks each takes, as in server1:4,server2:4. Hosts other than this "
             "one are reached by ssh. Default: the hosts that Slurm, PBS or LSF has given, else this host.")
      ->type_name("NAME:SLOTS,...")
      ->group(processes);
  add_option("--hostfile", raw.hostfile, "Read the hosts from a file, one a line: 'localhost slots=4'.")
      ->type_name("FILE")
      ->group(processes);
  add_option("--config-file", raw.config_file,
             "Read flags from a YAML file with lines such as 'cycle-time-ms: 2'. The command line overrides "
             "environment variables, and those override the file.")
      ->type_name("FILE")
      ->group(processes);
  add_option("--stdin", raw.stdin_to,
             "Connect dabkerun's standard input to rank 0, or to none. The other ranks read nothing. "
             "Default: 0.")
      ->type_name("0|none")
      ->group(processes);
  add_option(
      "--bind-to", raw.bind_to,
      "core: bind each rank to its own equal share of the cores, within one cache where possible, unless "
      "there are more ranks than cores. auto: like core, but do not bind if ranks leave cores of the host "
      "free, if a cgroup limits CPU time, or in a build without hwloc. Both set OMP_NUM_THREADS to the "
      "rank's share of the cores, unless it is set. --verbose prints the result. Default: auto; none with "
      "--launcher mpi.")
      ->type_name("auto|core|none")
      ->group(processes);
  add_option("-x,--env", raw.variables,
             "Set or forward an environment variable; may be repeated. Ranks inherit dabkerun's environment, "
             "on other hosts without variables of this login, such as DISPLAY and SSH_*. NAME forwards such "
             "a variable, too. NAME=VALUE sets it for all ranks, NAME@RANKS=VALUE for some, as in "
             "MODE@0-2,5=fast.")
      ->type_name("NAME[=VALUE]")
      ->group(processes);
  add_option("--grace-period", raw.grace_period,
             "Kill ranks that have not ended this many seconds after they were asked to. Default: 4, and 30 "
             "after dabkerun received SIGTERM.")
      ->type_name("SECONDS")
      ->group(processes);
}

void FlagParser::App::add_elastic(RawOptions& raw) {
  const std::string elastic = "Elastic jobs";
  add_option("--min-np", raw.min_np,
             "Go on when ranks are lost, as long as N are left. Fewer wait for others. The program must use "
             "elastic training. Default: the value of -np.")
      ->type_name("N")
      ->group(elastic);
  add_option("--max-np", raw.max_np, "Start new ranks when there are slots, up to N. Default: every slot.")
      ->type_name("N")
      ->group(elastic);
  add_option("--host-discovery-script", raw.discovery_script,
             "Run this command every second. It prints the hosts that the job may use, one a line, as "
             "'server1:4' or 'server1'. Default: the hosts of -H, a file or a batch system.")
      ->type_name("COMMAND")
      ->group(elastic);
  add_option("--slots-per-host", raw.slots_per_host,
             "Use this number of slots for hosts that the script prints without one. Default: 1.")
      ->type_name("N")
      ->group(elastic);
  add_option("--reset-limit", raw.reset_limit,
             "End the job at the first change of its ranks after N changes. Default: no limit.")
      ->type_name("N")
      ->group(elastic);
  add_option("--elastic-timeout", raw.elastic_timeout,
             "Wait this long for enough ranks, at the start and after a change. Default: 600.")
      ->type_name("SECONDS")
      ->group(elastic);
  add_option("--blacklist-cooldown-range", raw.cooldown_range,
             "Leave a slot or a host out for MIN seconds after its first failure, and twice as long after "
             "each further one, up to MAX. Default: 10 600.")
      ->type_name(kTwoWords)
      ->group(elastic);
  add_option("--spares", raw.spares,
             "Start N processes more than the job has ranks. They wait in init, and take the place of lost "
             "ranks at once. Default: 0.")
      ->type_name("N")
      ->group(elastic);
}

void FlagParser::App::add_remote(RawOptions& raw) {
  const std::string remote = "Remote hosts";
  add_option(
      "--launcher", raw.launcher,
      "Choose how other hosts are reached. ssh: by ssh. slurm: by one srun. auto: slurm inside a Slurm "
      "job that has these hosts, else ssh. mpi: hand the whole start over to mpirun. Default: auto.")
      ->type_name("auto|ssh|slurm|mpi")
      ->group(remote);
  add_option("--mpi-args", raw.mpi_arguments, "Pass these arguments to mpirun, quoted as in a shell.")
      ->type_name("TEXT")
      ->group(remote);
  add_option("-p,--ssh-port", raw.ssh_port, "Connect to this port of the other hosts by ssh.")
      ->type_name("PORT")
      ->group(remote);
  add_option("-i,--ssh-identity-file", raw.ssh_identity_file, "Log in by ssh with this private key.")
      ->type_name("FILE")
      ->group(remote);
  add_option("--ssh-user", raw.ssh_user, "Log in by ssh as this user.")->type_name("NAME")->group(remote);
  add_option("--ssh-args", raw.ssh_arguments,
             "Pass these arguments to ssh, quoted as in a shell, as in '-o ConnectTimeout=5'.")
      ->type_name("TEXT")
      ->group(remote);
  add_option("--remote-dabkerun", raw.remote_dabkerun,
             "Start dabkerun from this path on other hosts. Default: its path on this host.")
      ->type_name("PATH")
      ->group(remote);
  add_option("--remote-shell", raw.remote_shell,
             "Use this command instead of ssh. It gets a host and one command line, and runs the line in a "
             "shell on that host.")
      ->type_name("COMMAND")
      ->group(remote);
}

void FlagParser::App::add_output(RawOptions& raw) {
  const std::string output = "Output";
  add_option("--output-filename", raw.output_directory,
             "Also write each rank's output, unchanged and without prefixes, to DIR/rank.<rank>/stdout and "
             "stderr.")
      ->type_name("DIR")
      ->group(output);
  add_flag("--prefix-output-with-timestamp", raw.timestamps, "Begin each line with the time.")->group(output);
  add_flag("--no-prefix", raw.no_prefix, "Print the lines of ranks without [rank]<stdout>: before them.")
      ->group(output);
  add_flag(
      "--pty{1},--no-pty{0}", raw.pty,
      "Connect each rank's stdout to a pseudo-terminal, or to a pipe. On a pseudo-terminal programs print "
      "each line at once and in colours. Default: --pty if dabkerun's own stdout is a terminal.")
      ->group(output);
  add_flag(
      "--top", raw.top,
      "Show live statistics below the output, once a second: each rank's step, rate, queue, and how long "
      "others wait for it.")
      ->group(output);
  add_flag("--verbose", raw.verbose, "Print on stderr what is started where and how it ends.")->group(output);
}

void FlagParser::App::add_information(RawOptions& raw) {
  const std::string information = "Information";
  add_flag("--dry-run", raw.dry_run, "Print what would run where, and start nothing.")->group(information);
  add_flag("-h,--help", raw.help, "Print the most used flags; with a topic, all flags of that topic.")
      ->group(information);
  add_flag("-v,--version", raw.version, "Print the version.")->group(information);
  add_flag("--check-build", raw.check_build, "Print what this build contains.")->group(information);
  add_flag("--print-knobs", raw.print_knobs, "Print the table of settings as Markdown.")->group(information);
  add_flag("--print-completion", raw.print_completion, "Print a script that completes dabkerun in bash.")
      ->group(information);
}

void FlagParser::App::add_doctor(RawOptions& raw) {
  const std::string doctor = "Doctor";
  add_flag("--json", raw.json, "Print the findings of dabkerun doctor as JSON.")->group(doctor);
}

void FlagParser::App::add_horovod(RawOptions& raw) {
  const std::string other = "Horovod flags";
  add_flag("--gloo", raw.gloo, "No effect: gloo is always available.")->group(other);
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
