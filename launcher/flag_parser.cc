#include "launcher/flag_parser.h"

#include <fmt/format.h>

namespace dabke {
namespace {

constexpr const char* kKnobGroup = "Knobs";

}  // namespace

std::string opposite_of(std::string_view flag) {
  return flag.starts_with("no-") ? std::string(flag.substr(3)) : "no-" + std::string(flag);
}

FlagParser::FlagParser() {
  app.set_help_flag();
  add_general();
  for (const Knob& knob : knobs()) add_knob(knob);
  // The last of two wins, as everywhere.
  for (CLI::Option* option : app.get_options()) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

bool is_knob(const CLI::Option& option) { return option.get_group() == kKnobGroup; }

void FlagParser::add_general() {
  const std::string processes = "Processes", output = "Output", information = "Information",
                    other = "Accepted for Horovod";
  app.add_option("--num-proc", raw.num_proc,
                 "How many ranks to start. Without it, one for each slot of the hosts.")
      ->type_name("N")
      ->group(processes);
  app.add_option("-H,--hosts", raw.hosts,
                 "Hosts and how many ranks each takes, as in localhost:4. This version starts ranks on this "
                 "host only. Without it, this host takes all.")
      ->type_name("NAME:SLOTS,...")
      ->group(processes);
  app.add_option("--hostfile", raw.hostfile, "A file with a line such as 'localhost slots=4' for each host.")
      ->type_name("FILE")
      ->group(processes);
  app.add_option("--stdin", raw.stdin_to,
                 "Who reads dabkerun's standard input: rank 0, or none. The others read nothing. Default: 0.")
      ->type_name("0|none")
      ->group(processes);
  app.add_option("--bind-to", raw.bind_to,
                 "core: pin each rank to its own equal share of the cores, unless there are more ranks "
                 "than cores. Default: none.")
      ->type_name("core|none")
      ->group(processes);
  app.add_option("--output-filename", raw.output_directory,
                 "Also keep what each rank prints in DIR/rank.<rank>/stdout and stderr, as it came, "
                 "without prefixes.")
      ->type_name("DIR")
      ->group(output);
  app.add_flag("--prefix-output-with-timestamp", raw.timestamps, "Begin each line with the time.")
      ->group(output);
  app.add_flag("--no-prefix", raw.no_prefix, "Print the lines of ranks without [rank]<stdout>: before them.")
      ->group(output);
  app.add_flag("--verbose", raw.verbose, "Say on stderr what is started where and how it ends.")
      ->group(output);
  app.add_flag("-h,--help", raw.help, "Print this text.")->group(information);
  app.add_flag("-v,--version", raw.version, "Print the version.")->group(information);
  app.add_flag("--check-build", raw.check_build, "Print what this build has.")->group(information);
  app.add_flag("--print-knobs", raw.print_knobs, "Print the table of knobs as Markdown.")->group(information);
  app.add_flag("--gloo", raw.gloo, "No effect: gloo is there without MPI.")->group(other);
  app.add_flag("--disable-cache", raw.disable_cache, "No effect: nothing is cached between launches.")
      ->group(other);
}

void FlagParser::add_knob(const Knob& knob) {
  std::string& value = raw.knobs.emplace_back();
  const std::string flag(knob.flag);
  if (knob.is_switch()) {
    app.add_flag(fmt::format("--{0}{{1}},--{1}{{0}}", flag, opposite_of(flag)), value)->group(kKnobGroup);
  } else {
    app.add_option("--" + flag, value)->group(kKnobGroup);
  }
}

}  // namespace dabke
