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

constexpr std::string_view kKnobTopic = "Knobs";

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

/// The flags that are no knobs: of one topic, or of all where it is empty.
std::string general_help(const FlagParser& parser, std::string_view topic) {
  std::string out;
  std::string group;
  for (const Flag& flag : parser.flags()) {
    if (flag.is_knob || (!topic.empty() && topic_of(flag.group) != topic)) continue;
    if (flag.group != group) out += fmt::format("\n{}:\n", group = flag.group);
    std::string names;
    for (const Alias& alias : kAliases) {
      if (alias.flag.substr(2) == flag.names.front()) names += fmt::format("{}, ", alias.spelling);
    }
    for (const std::string& name : flag.short_names) names += fmt::format("-{}, ", name);
    names += fmt::format("--{}", fmt::join(flag.names, ", --"));
    if (flag.takes_value) names += " " + flag.value_name;
    out += fmt::format("  {}\n{}", names, wrapped(flag.description, 8));
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

std::string knob_help() {
  std::string out = "\nKnobs (each sets the variable named with it, for all ranks):\n";
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

/// What the doctor is for.
std::string doctor_words() {
  return "Usage: dabkerun doctor [-H hosts] [flags]\n\n" +
         wrapped(
             "Examines the hosts of a job before there is one, through the same agents, and prints what it "
             "has "
             "found and what to do about it: who can be reached, versions, clocks, processors, memory, "
             "/dev/shm, "
             "limits, ports, and for each pair of hosts, in both directions, at which address they reach "
             "each "
             "other, how long a byte takes there and back, and how many bytes a second arrive. Hosts come "
             "from "
             "-H, --hostfile or the batch system, as for a job; without any it is this one. The flags that "
             "bring "
             "agents to other hosts, --network-interfaces, --start-timeout and --config-file count as for a "
             "job. "
             "Exit code: 0 when nothing is wrong; 1 when something is; 2 for a wrong command line.",
             0);
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
  if (topic == topic_of(kKnobTopic)) return knob_help();
  if (topic == kDoctor) return doctor_words() + general_help(parser, kDoctor);
  if (topic != "all" && std::ranges::find(known, topic) != known.end()) return general_help(parser, topic);
  const std::string more =
      topic == "all"
          ? "\n" + doctor_words() + knob_help()
          : "\n" + wrapped(fmt::format("dabkerun --help TOPIC prints a part of this, or the {} flags that "
                                       "set what the library does: {}.",
                                       knobs().size(), fmt::join(known, ", ")),
                           0);
  const std::string intro =
      "Usage: dabkerun -np N [flags] command [arguments...]\n\n" +
      wrapped(
          "Starts N processes (ranks) of a command on one host or many, helps them find one "
          "another, and prints what they "
          "print, each line after [rank]<stdout>: or [rank]<stderr>:. When one rank "
          "fails, the others are ended, and "
          "its exit code is dabkerun's.",
          0) +
      "\n" +
      wrapped(
          "The first word that is no flag begins the command; -- does too, for a "
          "command that begins with a dash.",
          0);
  const std::string exit_codes = wrapped(
      "Exit code: 0 when all ranks ended with 0; else that of the first rank that failed, 128 + n when "
      "signal n "
      "killed it; 2 for a wrong command line; 126 or 127 when the command cannot be run or is not found.",
      0);
  const std::string signals = wrapped(
      "Signals: SIGINT (Ctrl-C), SIGTERM and SIGHUP tell all ranks to end, and 128 + n is the exit code "
      "unless all end "
      "with 0. SIGUSR1, SIGUSR2, SIGQUIT, SIGCONT and SIGWINCH reach every rank once. docs/launcher.md has a "
      "table.",
      0);
  return intro + general_help(parser, "") + more + "\n" + exit_codes + "\n" + signals +
         "\nExamples:\n"
         "  dabkerun -np 4 ./train --epochs 10\n"
         "  dabkerun -np 8 -H server1:4,server2:4 python train.py\n"
         "  dabkerun doctor -H server1:4,server2:4\n"
         "  dabkerun -np 2 --timeline-filename trace.json python train.py\n";
}

}  // namespace dabke::launcher
