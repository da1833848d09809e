#include "launcher/cli/flags/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/cli/flags/config_file.h"
#include "launcher/cli/flags/flag_parser.h"
#include "launcher/cli/flags/flags.h"
#include "launcher/cli/flags/help.h"
#include "launcher/hosts/placement.h"
#include "launcher/reach/shell_words.h"
#include "runtime/base/settings/config.h"
#include "runtime/base/text/spelling.h"

namespace dabke::launcher {
namespace {

using Words = std::vector<std::string>;

/// True for flags such as --no-autotune, which request the default behaviour.
bool is_refused_feature_switched_off(const std::string& flag) {
  return flag.starts_with("--no-") && std::ranges::any_of(kRefusals, [&](const Refusal& refusal) {
           return refusal.flag.substr(2) == flag.substr(5);
         });
}

/// Returns the flag that is closest to `flag`; empty if none is close.
std::string closest_flag(const FlagParser& parser, const std::string& flag) {
  std::string closest;
  std::size_t least = std::max<std::size_t>(1, flag.size() / 4) + 1;
  bool is_beginning = false;  // of `closest`
  const auto consider = [&](const std::string& name) {
    if (name.size() <= 2) return;  // every letter is close to every other
    if (flag.size() > 4 && name.starts_with(flag)) {
      if (!is_beginning || name.size() < closest.size()) closest = name;
      is_beginning = true;
    } else if (const std::size_t changes = edit_distance(flag, name); !is_beginning && changes < least) {
      least = changes;
      closest = name;
    }
  };
  for (const Flag& known : parser.flags()) {
    for (const std::string& name : known.names) consider("--" + name);
  }
  for (const Alias& alias : kAliases) consider(std::string(alias.spelling));
  return closest;
}

/// Returns why a flag of another launcher is refused; empty if it is not one.
std::string reason_to_refuse(std::string_view flag) {
  if (const auto refusal = std::ranges::find(kRefusals, flag, &Refusal::flag); refusal != kRefusals.end())
    return std::string(refusal->reason);
  const auto needless = std::ranges::find(kNotNeeded, flag, &Refusal::flag);
  return needless == kNotNeeded.end() ? ""
                                      : fmt::format("not needed, because {}; leave it out", needless->reason);
}

/// Returns the flag that was meant, or else the closest one; empty if there is none.
std::string meant_flag(const FlagParser& parser, const std::string& flag) {
  const auto meant = std::ranges::find(kMeant, flag, &Meant::spelling);
  return meant == kMeant.end() ? closest_flag(parser, flag) : std::string(meant->flag);
}

Status unknown_flag(const FlagParser& parser, const std::string& flag) {
  if (const std::string reason = reason_to_refuse(flag); !reason.empty())
    return {Code::invalid_argument, fmt::format("{}: {}", flag, reason)};
  const std::string meant = meant_flag(parser, flag);
  return {Code::invalid_argument,
          meant.empty()
              ? fmt::format("{}: unknown option; dabkerun --help lists all options, and -- ends them", flag)
              : fmt::format("{}: unknown option; did you mean {}?", flag, meant)};
}

/// The words before the command, each flag joined with its value as --flag=value, and the command.
struct SplitLine {
  std::vector<std::string> flags;
  std::vector<std::string> command;
};

Result<SplitLine> split_line(const FlagParser& parser, std::span<const std::string> arguments) {
  SplitLine line;
  std::size_t at = 0;
  while (at < arguments.size()) {
    const std::string& word = arguments[at];
    if (word == "--") ++at;
    if (word == "--" || !word.starts_with('-') || word == "-") break;
    ++at;
    const auto equals = word.find('=');
    const std::string spelled = word.substr(0, equals);
    std::string flag = spelled;
    for (const Alias& alias : kAliases) {
      if (spelled == alias.spelling) flag = alias.flag;
    }
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    const Flag* known = parser.find(flag);
    if (known == nullptr && !flag.starts_with("--") && flag.size() > 2) {  // -Hlocalhost:4
      known = parser.find(flag.substr(0, 2));
      if (known != nullptr && !known->takes_value) known = nullptr;
      if (known != nullptr) value = word.substr(2);
      if (known != nullptr) flag = flag.substr(0, 2);
    }
    if (known == nullptr && is_refused_feature_switched_off(spelled)) continue;
    if (known == nullptr) return unknown_flag(parser, spelled);
    const bool takes_value = known->takes_value;
    if (!takes_value && value) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: {} is a switch and takes no value", word, spelled));
    }
    if (takes_value && !value) {
      if (at == arguments.size()) {
        return Status(Code::invalid_argument, fmt::format("{}: its value is missing", spelled));
      }
      value = arguments[at++];
      if (known->takes_two_words && at < arguments.size() && value->find_first_of(" ,") == std::string::npos)
        *value += " " + arguments[at++];
    }
    if (takes_value && value->empty()) {
      return Status(Code::invalid_argument, fmt::format("{}: its value is empty", spelled));
    }
    if (!known->names.empty() && takes_value) flag = "--" + known->names.front();
    line.flags.push_back(takes_value ? fmt::format("{}={}", flag, *value) : flag);
  }
  line.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
  return line;
}

Status take_number_of_ranks(const std::string& text, Options& options) {
  if (text.empty()) return {};  // one rank for each slot of the hosts
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, options.num_proc);
  if (error != std::errc() || end != last || options.num_proc < 1 || options.num_proc > kMostRanks) {
    return {Code::invalid_argument,
            fmt::format("-np {}: expected the number of ranks, from 1 to {}", text, kMostRanks)};
  }
  return {};
}

Status take_ssh_port(const std::string& text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() ||
      (error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535))
    return {};
  return {Code::invalid_argument, fmt::format("--ssh-port {}: expected a port from 1 to 65535", text)};
}

Status take_variables(const std::vector<std::string>& texts, Options& options) {
  for (const std::string& text : texts) {
    DABKE_ASSIGN_OR_RETURN(GivenVariable variable, parse_given_variable(text));
    options.variables.push_back(std::move(variable));
  }
  return {};
}

Status take_grace_period(const std::string& text, Options& options) {
  if (text.empty()) return {};
  constexpr double kMost = 86400;
  double seconds = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, seconds);
  if (error != std::errc() || end != last || !(seconds >= 0 && seconds <= kMost)) {
    return {Code::invalid_argument,
            fmt::format("--grace-period {}: expected a number of seconds from 0 to {:g}", text, kMost)};
  }
  options.grace = std::chrono::milliseconds(std::llround(seconds * 1000));
  return {};
}

Status take_choices(const RawOptions& raw, Options& options) {
  if (!raw.hosts.empty() && !raw.hostfile.empty()) {
    return {Code::invalid_argument, fmt::format("-H {} and --hostfile {} both name the hosts: give only one",
                                                raw.hosts, raw.hostfile)};
  }
  if (raw.stdin_to != "0" && raw.stdin_to != "none") {
    return {Code::invalid_argument,
            fmt::format("--stdin {}: expected 0 (rank 0 reads it) or none", raw.stdin_to)};
  }
  constexpr std::pair<std::string_view, BindTo> kBindings[] = {
      {"auto", BindTo::automatic}, {"core", BindTo::core}, {"none", BindTo::none}};
  if (!raw.bind_to.empty()) {
    const auto binding =
        std::ranges::find(kBindings, raw.bind_to, &std::pair<std::string_view, BindTo>::first);
    if (binding == std::end(kBindings))
      return {Code::invalid_argument, fmt::format("--bind-to {}: expected auto, core or none", raw.bind_to)};
    options.bind_to = binding->second;
  }
  if (std::ranges::find(kLaunchers, raw.launcher) == kLaunchers.end()) {
    return {Code::invalid_argument,
            fmt::format("--launcher {}: expected one of {}", raw.launcher, fmt::join(kLaunchers, ", "))};
  }
  options.launcher = raw.mpi ? "mpi" : raw.launcher;
  if (!raw.mpi_arguments.empty() && options.launcher != "mpi")
    return {Code::invalid_argument,
            fmt::format("--mpi-args {}: only valid with --launcher mpi", raw.mpi_arguments)};
  for (const auto& [flag, text] :
       {std::pair("--ssh-args", &raw.ssh_arguments), std::pair("--remote-shell", &raw.remote_shell),
        std::pair("--mpi-args", &raw.mpi_arguments)}) {
    if (const auto words = split_shell_words(*text); !words.is_ok())
      return {Code::invalid_argument, fmt::format("{} {}: {}", flag, *text, words.status().message())};
  }
  options.mpi_arguments = raw.mpi_arguments;
  options.stdin_to_rank_0 = raw.stdin_to == "0";
  return {};
}

Status check_help_topic(const std::string& topic) {
  std::vector<std::string> topics = help_topics();
  if (topic == kSettingsBefore || std::ranges::find(topics, topic) != topics.end()) return {};
  const std::string closest = closest_name(topic, topics, std::max<std::size_t>(1, topic.size() / 4));
  return {Code::invalid_argument,
          fmt::format("--help {}: unknown topic; {}", topic,
                      closest.empty() ? fmt::format("topics are {}", fmt::join(topics, ", "))
                                      : fmt::format("did you mean {}?", closest))};
}

/// Converts a flag's value to the unit of its variable, for example megabytes to bytes.
Result<std::string> scaled(const Knob& knob, const std::string& text) {
  double number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const double value = number * knob.flag_scale;
  const bool is_whole = std::holds_alternative<std::int64_t Config::*>(knob.field);
  if (error == std::errc() && end == last && std::isfinite(value) && std::abs(value) < 9e18 &&
      value >= knob.range.least && value <= knob.range.most) {
    return is_whole ? fmt::format("{}", std::llround(value)) : fmt::format("{}", value);
  }
  return Status(Code::invalid_argument,
                fmt::format("--{}={} is not valid: expected a number ({} times it becomes {}, {}). {}",
                            knob.flag, text, knob.flag_scale, knob.env_name(), knob.accepts(), knob.help));
}

Status take_knobs(const RawOptions& raw, Options& options) {
  Config config;
  std::size_t row = 0;
  for (const Knob& knob : knobs()) {
    std::string value = raw.knobs[row++];
    if (value.empty()) continue;
    if (knob.flag_scale != 1) {
      DABKE_ASSIGN_OR_RETURN(value, scaled(knob, value));
    }
    DABKE_RETURN_IF_ERROR(set_knob(config, knob, value, "--" + std::string(knob.flag)));
    options.knobs.emplace_back(knob.env_name(), std::move(value));
  }
  return {};
}

Status take_values(const RawOptions& raw, const Environment& environment, Options& options) {
  DABKE_RETURN_IF_ERROR(take_number_of_ranks(raw.num_proc, options));
  DABKE_RETURN_IF_ERROR(take_choices(raw, options));
  DABKE_RETURN_IF_ERROR(take_ssh_port(raw.ssh_port));
  DABKE_RETURN_IF_ERROR(take_variables(raw.variables, options));
  DABKE_RETURN_IF_ERROR(take_grace_period(raw.grace_period, options));
  DABKE_ASSIGN_OR_RETURN(options.elastic, take_elastic_options(raw, environment));
  return take_knobs(raw, options);
}

bool is_in_environment(const Knob& knob, const Environment& environment) {
  return environment(knob.env_name()) ||
         (!knob.horovod.empty() && environment("HOROVOD_" + std::string(knob.horovod)));
}

/// True if the command line or the environment gives a value for the file's `flag`, or for a flag that
/// excludes it.
bool is_said_elsewhere(const Flag& flag, const RawOptions& line, const Environment& environment) {
  const std::string& name = flag.names.front();
  if (name == "hosts" || name == "hostfile") return !line.hosts.empty() || !line.hostfile.empty();
  return std::ranges::any_of(knobs(), [&](const Knob& knob) {
    return flag.is_knob && std::ranges::find(flag.names, knob.flag) != flag.names.end() &&
           is_in_environment(knob, environment);
  });
}

/// Returns the flag that a key names, as on a command line: "--hosts" for "hosts", "-H" for "H", "--num-proc"
/// for "np".
std::string spelled_as_flag(const FlagParser& parser, const std::string& key) {
  for (const Alias& alias : kAliases) {
    if (alias.spelling == "-" + key || alias.spelling == "--" + key) return std::string(alias.flag);
  }
  const std::string shortened = "-" + key;
  return key.size() == 1 && parser.find(shortened) != nullptr ? shortened : "--" + key;
}

/// Returns the key that was meant; empty if there is none, or if it may not be a key.
std::string meant_key(const FlagParser& parser, const std::string& spelled) {
  std::string flag = meant_flag(parser, spelled);
  if (const auto alias = std::ranges::find(kAliases, flag, &Alias::spelling); alias != kAliases.end())
    flag = alias->flag;
  if (flag.empty()) return "";
  const Flag* const meant = parser.find(flag);
  if (meant == nullptr || meant->names.empty() || "--" + meant->names.front() == spelled) return "";
  return meant->names.front();
}

/// Returns the entry's words as on a command line; none if the entry has no effect.
Result<Words> flag_in_file(const FlagParser& parser, const ConfigEntry& entry, const std::string& where) {
  const std::string spelled = spelled_as_flag(parser, entry.key);
  const Flag* flag = parser.find(spelled);
  const std::string reason = reason_to_refuse(spelled);
  if (flag == nullptr && !reason.empty()) {
    if (entry.is_false) return Words();
    return Status(Code::invalid_argument, fmt::format("{}: '{}': {}", where, entry.key, reason));
  }
  if (flag == nullptr || flag->group == "Information" || flag->names.front() == "config-file") {
    const std::string closest = meant_key(parser, spelled);
    return Status(Code::invalid_argument,
                  fmt::format("{}: unknown key '{}'{}", where, entry.key,
                              closest.empty() ? ": the keys are the options that dabkerun --help lists"
                                              : fmt::format("; did you mean {}?", closest)));
  }
  if (flag->takes_value) {
    const std::string name = "--" + flag->names.front();
    if (entry.value.empty())
      return Status(Code::invalid_argument, fmt::format("{}: '{}' is empty", where, entry.key));
    if (!flag->may_be_repeated) return Words{fmt::format("{}={}", name, entry.value)};
    Words words;
    for (const std::string& part : entry.parts) words.push_back(fmt::format("{}={}", name, part));
    return words;
  }
  if (!entry.is_true && !entry.is_false) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: '{}' is '{}': expected true or false", where, entry.key, entry.value));
  }
  if (entry.is_true) return Words{spelled};
  const std::string opposite = "--" + opposite_of(spelled.substr(2));
  return parser.find(opposite) == flag ? Words{opposite} : Words();
}

/// Refuses a second value for one flag, in any spelling: one of the two would be dropped silently.
Status check_given_once(const FlagParser& parser, const ConfigEntry& entry, const std::string& where,
                        std::map<std::string, int>& lines) {
  const Flag* const flag = parser.find(spelled_as_flag(parser, entry.key));
  if (flag == nullptr) return {};
  const auto [known, is_new] =
      lines.try_emplace(flag->may_be_repeated ? entry.key : flag->names.front(), entry.line);
  if (is_new) return {};
  return {Code::invalid_argument, fmt::format("{}: '{}' is given twice, first on line {}: keep one", where,
                                              entry.key, known->second)};
}

/// Returns the flags that only the file gives, as on a command line.
Result<Words> flags_in_file(const FlagParser& line, const Environment& environment) {
  const std::string& path = line.raw.config_file;
  DABKE_ASSIGN_OR_RETURN(const std::vector<ConfigEntry> entries, read_config_file(path));
  Words flags;
  std::map<std::string, int> lines;  // by flag
  for (const ConfigEntry& entry : entries) {
    const std::string where = fmt::format("--config-file {} line {}", path, entry.line);
    DABKE_ASSIGN_OR_RETURN(const Words words, flag_in_file(line, entry, where));
    DABKE_RETURN_IF_ERROR(check_given_once(line, entry, where, lines));
    if (words.empty()) continue;
    // A bad value in the file is an error, even if it is overridden.
    FlagParser alone;
    DABKE_RETURN_IF_ERROR(alone.parse(words));
    Options ignored;
    if (const Status status = take_values(alone.raw, environment, ignored); !status.is_ok())
      return Status(Code::invalid_argument, fmt::format("{}: {}", where, status.message()));
    if (!is_said_elsewhere(*line.find(spelled_as_flag(line, entry.key)), line.raw, environment))
      flags.insert(flags.end(), words.begin(), words.end());
  }
  return flags;
}

/// Parses the flags of the line, and those of the config file that the line does not give.
Status parse_flags(const FlagParser& line, std::vector<std::string> given, const Environment& environment,
                   FlagParser& all) {
  std::vector<std::string> flags;
  if (!line.raw.config_file.empty()) {
    DABKE_ASSIGN_OR_RETURN(flags, flags_in_file(line, environment));
  }
  flags.insert(flags.end(), given.begin(), given.end());  // the last of two values wins
  return all.parse(std::move(flags));
}

Action action_of(const RawOptions& raw, bool is_for_doctor) {
  if (raw.print_completion) return Action::print_completion;
  if (raw.print_knobs) return Action::print_knobs;
  if (raw.check_build) return Action::check_build;
  if (raw.version) return Action::version;
  if (raw.help) return Action::help;
  return is_for_doctor ? Action::doctor : Action::run;
}

/// Copies the values that need no check.
void take_texts(const RawOptions& raw, Options& options) {
  options.hosts = raw.hosts;
  options.hostfile = raw.hostfile;
  options.output_directory = raw.output_directory;
  options.prefix = !raw.no_prefix;
  options.timestamps = raw.timestamps;
  if (!raw.pty.empty()) options.pty = raw.pty == "1";
  options.dry_run = raw.dry_run;
  options.json = raw.json;
  options.verbose = raw.verbose;
  options.top = raw.top;
  options.ssh_port = raw.ssh_port;
  options.ssh_identity_file = raw.ssh_identity_file;
  options.ssh_user = raw.ssh_user;
  options.ssh_arguments = raw.ssh_arguments;
  options.remote_dabkerun = raw.remote_dabkerun;
  options.remote_shell = raw.remote_shell;
}

Status settle_elastic(Options& options) {
  const std::string hosts = !options.hosts.empty() ? "-H" : !options.hostfile.empty() ? "--hostfile" : "";
  if (options.launcher == "mpi")
    return {Code::invalid_argument, "--launcher mpi: mpirun cannot start further ranks; leave it out"};
  return settle_elastic_options(*options.elastic, options.num_proc, hosts);
}

/// Checks that there is a command exactly where one is needed. `arguments` are without the first word of the
/// doctor.
Status check_command(const Options& options, const RawOptions& raw, std::span<const std::string> arguments) {
  const bool is_for_doctor = options.action == Action::doctor;
  if (!is_for_doctor && !options.command.empty() && options.command.front() == kDoctor &&
      raw.num_proc.empty()) {
    const auto before = arguments.first(arguments.size() - options.command.size());
    return {Code::invalid_argument, fmt::format("doctor: put it before its options: dabkerun doctor {}; to "
                                                "run a program of that name, give -np or its path",
                                                fmt::join(before, " "))};
  }
  if (is_for_doctor && !options.command.empty())
    return {
        Code::invalid_argument,
        fmt::format("doctor {}: the doctor does not start a command; leave it out", options.command.front())};
  if (raw.json && !is_for_doctor) return {Code::invalid_argument, "--json: only valid with dabkerun doctor"};
  if (options.command.empty() && !is_for_doctor)
    return {Code::invalid_argument,
            "the command is missing: give the program to start, as in dabkerun -np 2 ./train --epochs 10"};
  return {};
}

}  // namespace

Result<Options> parse_command_line(std::span<const std::string> arguments, const Environment& environment) {
  const bool is_for_doctor = !arguments.empty() && arguments.front() == kDoctor;
  if (is_for_doctor) arguments = arguments.subspan(1);
  FlagParser line_parser;
  DABKE_ASSIGN_OR_RETURN(SplitLine line, split_line(line_parser, arguments));
  DABKE_RETURN_IF_ERROR(line_parser.parse(line.flags));
  FlagParser parser;
  DABKE_RETURN_IF_ERROR(parse_flags(line_parser, line.flags, environment, parser));
  const RawOptions& raw = parser.raw;
  Options options;
  options.action = action_of(raw, is_for_doctor);
  options.command = std::move(line.command);
  if (is_for_doctor && raw.help) options.command = {std::string(kDoctor)};
  if (raw.help && !options.command.empty()) DABKE_RETURN_IF_ERROR(check_help_topic(options.command.front()));
  if (options.action != Action::run && options.action != Action::doctor) return options;
  take_texts(raw, options);
  if (line_parser.raw.hosts.empty() && line_parser.raw.hostfile.empty()) options.hosts_from = raw.config_file;
  DABKE_RETURN_IF_ERROR(take_values(raw, environment, options));
  if (options.elastic) DABKE_RETURN_IF_ERROR(settle_elastic(options));
  DABKE_RETURN_IF_ERROR(check_command(options, raw, arguments));
  return options;
}

}  // namespace dabke::launcher
