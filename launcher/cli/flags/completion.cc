#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/cli/flags/flag_parser.h"
#include "launcher/cli/flags/flags.h"
#include "launcher/cli/flags/help.h"

namespace dabke::launcher {
namespace {

/// The flag's names as typed: "--hosts", "-H".
std::vector<std::string> spellings_of(const Flag& flag) {
  std::vector<std::string> words;
  for (const std::string& name : flag.names) words.push_back("--" + name);
  for (const std::string& name : flag.short_names) words.push_back("-" + name);
  for (const Alias& alias : kAliases) {
    if (std::ranges::find(words, alias.flag) != words.end()) words.emplace_back(alias.spelling);
  }
  return words;
}

std::string value_name_of(const Flag& flag) {
  if (!flag.is_knob) return flag.value_name;
  const auto knob = std::ranges::find(knobs(), flag.names.front(), &Knob::flag);
  return knob == knobs().end() ? "" : value_name(*knob);
}

/// Returns the command that completes a value with this name.
std::string completer_of(std::string value) {
  if (value == "FILE" || value == "PATH" || value == "TEXT") return "compgen -f";
  if (value == "DIR") return "compgen -d";
  if (value.starts_with("NAME:SLOTS")) return "compgen -A hostname";
  if (value.find('|') == std::string::npos) return "";
  std::ranges::replace(value, '|', ' ');
  return fmt::format("compgen -W '{}'", value);
}

}  // namespace

std::string completion_script() {
  std::vector<std::string> all, valued;
  std::map<std::string, std::vector<std::string>> by_completer;
  const FlagParser parser;
  for (const Flag& flag : parser.flags()) {
    const auto words = spellings_of(flag);
    all.insert(all.end(), words.begin(), words.end());
    if (!flag.takes_value) continue;
    valued.insert(valued.end(), words.begin(), words.end());
    auto& same = by_completer[completer_of(value_name_of(flag))];
    same.insert(same.end(), words.begin(), words.end());
  }
  std::string cases;
  for (const auto& [completer, words] : by_completer) {
    cases += fmt::format("    {})\n", fmt::join(words, "|"));
    if (!completer.empty())
      cases += fmt::format("      mapfile -t COMPREPLY < <({} -- \"$current\")\n", completer);
    cases += "      return ;;\n";
  }
  return fmt::format(
      "# Completes dabkerun in bash; printed by dabkerun --print-completion.\n"
      "_dabkerun() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} word at\n"
      "  COMPREPLY=()\n"
      "  # What comes after the command is the command's.\n"
      "  for ((at = 1; at < COMP_CWORD; ++at)); do\n"
      "    word=${{COMP_WORDS[at]}}\n"
      "    case $word in\n"
      "      {0}) ((at == 1)) || return ;;\n"
      "      --) return ;;\n"
      "      {1}) ((++at)) ;;\n"
      "      -*) ;;\n"
      "      *) return ;;\n"
      "    esac\n"
      "  done\n"
      "  case ${{COMP_WORDS[COMP_CWORD - 1]}} in\n"
      "{2}"
      "  esac\n"
      "  if [[ $current == -* ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W '{3}' -- \"$current\")\n"
      "  else\n"
      "    mapfile -t COMPREPLY < <(compgen -c -- \"$current\")\n"
      "    if ((COMP_CWORD == 1)) && [[ {0} == \"$current\"* ]]; then COMPREPLY+=({0}); fi\n"
      "  fi\n"
      "}}\n"
      "complete -o default -F _dabkerun dabkerun\n",
      kDoctor, fmt::join(valued, "|"), cases, fmt::join(all, " "));
}

}  // namespace dabke::launcher
