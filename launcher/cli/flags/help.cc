#include <algorithm>
#include <cctype>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/cli/flags/flag_parser.h"
#include "launcher/cli/flags/flags.h"
#include "launcher/cli/flags/help.h"
#include "runtime/base/settings/config.h"

namespace dabke::launcher {
namespace {

constexpr std::string_view kSettings = "settings";

/// A row of the first screen; a group's name where `flag` is empty.
struct Brief {
  std::string_view flag, text;
};
/// The most used flags. With usage, examples and topics they fit a terminal of 24 lines and 80 columns.
constexpr Brief kFirstScreen[] = {
    {"", "Ranks and hosts"},
    {"-np N", "number of ranks"},
    {"-H, --hosts NAME:SLOTS,...", "hosts, and how many ranks each takes"},
    {"--hostfile FILE", "file with one host a line: server1 slots=4"},
    {"-x, --env NAME[=VALUE]", "set or forward an environment variable"},
    {"--bind-to auto|core|none", "bind ranks to cores"},
    {"--launcher ssh|slurm|mpi", "how to reach other hosts"},
    {"", "Output and timeline"},
    {"--output-filename DIR", "also write each rank's output to files"},
    {"--timeline-filename FILE", "write a Chrome trace of all ranks"},
    {"--top", "show live statistics below the output"},
    {"--verbose", "print what starts where and how it ends"},
    {"", "Before a job"},
    {"--dry-run", "print what would run where; start nothing"},
    {"--check-build", "print what this build contains"},
    {"doctor -H NAME,...", "examine hosts and the network between them"},
};

/// `text` in lines of at most 100 characters, each after `indent` spaces.
std::string wrapped(std::string_view text, std::size_t indent) {
  constexpr std::size_t kWidth = 100;
  std::string out, line;
  while (!text.empty()) {
    const auto space = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
      out += std::string(indent, ' ') + line + '\n';
      line.clear();
    }
    line += fmt::format("{}{}", line.empty() ? "" : " ", word);
  }
  return line.empty() ? out : out + std::string(indent, ' ') + line + '\n';
}

/// A group of flags by its first word.
std::string topic_of(std::string_view group) {
  std::string topic(group.substr(0, group.find(' ')));
  std::ranges::transform(topic, topic.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return topic;
}

/// "-np, -n, --num-proc N"
std::string names_of(const Flag& flag) {
  std::string names;
  for (const Alias& alias : kAliases) {
    if (alias.flag.substr(2) == flag.names.front()) names += fmt::format("{}, ", alias.spelling);
  }
  for (const std::string& name : flag.short_names) names += fmt::format("-{}, ", name);
  names += fmt::format("--{}", fmt::join(flag.names, ", --"));
  return flag.takes_value ? names + " " + flag.value_name : names;
}

/// All flags of a topic, or of every topic if it is empty. Settings have a form of their own.
std::string general_help(const FlagParser& parser, std::string_view topic) {
  std::string out;
  std::string group;
  for (const Flag& flag : parser.flags()) {
    if (flag.is_knob || (!topic.empty() && topic_of(flag.group) != topic)) continue;
    if (flag.group != group) out += fmt::format("\n{}:\n", group = flag.group);
    out += fmt::format("  {}\n{}", names_of(flag), wrapped(flag.description, 8));
  }
  return out;
}

std::string knob_flags(const Knob& knob) {
  if (!knob.is_switch()) return fmt::format("--{} {}", knob.flag, value_name(knob));
  const std::string on = fmt::format("--{}", knob.flag);
  const std::string off = fmt::format("--{}", opposite_of(knob.flag));
  std::string out = fmt::format("{}, {}", on, off);
  for (const Alias& alias : kAliases) {
    if (alias.flag == on || alias.flag == off) out += fmt::format(", {}", alias.spelling);
  }
  return out;
}

std::string settings_help() {
  std::string out = "\nSettings (each flag sets the variable below it for all ranks):\n";
  const Config defaults;
  for (const Knob& knob : knobs()) {
    std::string value = knob_value(defaults, knob);
    if (value.empty()) value = "empty";
    std::string variable = fmt::format("{}: {}; default {}.", knob.env_name(), knob.accepts(), value);
    if (knob.flag_scale != 1) {
      variable = fmt::format("{} is {} times X: {}; default {}.", knob.env_name(), knob.flag_scale,
                             knob.accepts(), value);
    }
    out += fmt::format("  {}\n{}{}", knob_flags(knob), wrapped(knob.help, 8), wrapped(variable, 8));
  }
  return out;
}

std::string doctor_intro() {
  return "Usage: dabkerun doctor [-H hosts] [flags]\n\n" +
         wrapped(
             "Examines the hosts of a job before the job starts, and prints its findings and what to do "
             "about "
             "them. It checks each host: login, versions, clock, processors, memory, /dev/shm, limits and "
             "ports. For each pair of hosts, in both directions, it measures the address that works, the "
             "round trip time and the bandwidth.",
             0) +
         "\n" +
         wrapped(
             "Hosts come from -H, --hostfile or the batch system, as for a job; without any, this host is "
             "examined. The flags of remote hosts, --network-interfaces, --start-timeout and --config-file "
             "apply as for a job.",
             0) +
         "\n" +
         wrapped("Exit code: 0 if nothing is wrong; 1 if something is; 2 for a wrong command line.", 0);
}

std::string usage() { return "Usage: dabkerun -np N [flags] command [arguments...]\n"; }

std::string examples() {
  return "\nExamples:\n"
         "  dabkerun -np 4 python train.py\n"
         "  dabkerun -np 8 -H server1:4,server2:4 python train.py\n";
}

std::string first_screen(const std::vector<std::string>& topics) {
  std::string out = usage() + "Starts N processes (ranks) of a command, on one host or many.\n";
  for (const Brief& row : kFirstScreen) {
    out += row.flag.empty() ? fmt::format("{}:\n", row.text) : fmt::format("  {:30}{}\n", row.flag, row.text);
  }
  return out + examples().substr(1) +
         fmt::format("More: dabkerun --help TOPIC, with one of these:\n  {}\n", fmt::join(topics, " "));
}

std::vector<std::string> topics(const FlagParser& parser) {
  std::vector<std::string> all;
  for (const Flag& flag : parser.flags()) {
    if (std::ranges::find(all, topic_of(flag.group)) == all.end()) all.push_back(topic_of(flag.group));
  }
  all.emplace_back("all");
  return all;
}

}  // namespace

std::string value_name(const Knob& knob) {
  std::string name(knob.choices());
  if (!name.empty()) {
    std::ranges::replace(name, ',', '|');
    return name;
  }
  if (std::holds_alternative<std::string Config::*>(knob.field)) return "TEXT";
  if (knob.unit.empty() || knob.flag_scale != 1) return "X";
  std::ranges::transform(knob.unit, std::back_inserter(name),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

std::vector<std::string> help_topics() { return topics(FlagParser()); }

std::string help_text(std::string_view topic) {
  const FlagParser parser;
  const auto known = topics(parser);
  if (topic == kSettings || topic == kSettingsBefore) return settings_help();
  if (topic == kDoctor) return doctor_intro() + general_help(parser, kDoctor);
  if (topic != "all" && std::ranges::find(known, topic) != known.end()) return general_help(parser, topic);
  if (topic != "all") return first_screen(known);
  const std::string intro = usage() + "\n" +
                            wrapped(
                                "Starts N processes (ranks) of a command on one host or many and connects "
                                "them. Each line that they "
                                "print is prefixed by [rank]<stdout>: or [rank]<stderr>:. When one rank "
                                "fails, the others are ended, "
                                "and dabkerun exits with its status.",
                                0) +
                            "\n" +
                            wrapped(
                                "The first word that is not a flag begins the command. So does --, for a "
                                "command that begins with a "
                                "dash.",
                                0);
  const std::string exit_codes = wrapped(
      "Exit code: 0 if all ranks ended with 0; else that of the first rank that failed, or 128 + n if signal "
      "n killed it. It is 2 for a wrong command line, and 126 or 127 if the command cannot be run or is not "
      "found.",
      0);
  const std::string signals = wrapped(
      "Signals: SIGINT (Ctrl-C), SIGTERM and SIGHUP end all ranks, and 128 + n is the exit code unless all "
      "end with 0. SIGUSR1, SIGUSR2, SIGQUIT, SIGCONT and SIGWINCH are forwarded to every rank once. "
      "docs/launcher.md has a table.",
      0);
  return intro + general_help(parser, "") + "\n" + doctor_intro() + settings_help() + "\n" + exit_codes +
         "\n" + signals + examples() +
         "  dabkerun doctor -H server1:4,server2:4\n"
         "  dabkerun -np 2 --timeline-filename trace.json python train.py\n";
}

}  // namespace dabke::launcher
