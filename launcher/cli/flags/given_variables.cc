#include "launcher/cli/flags/given_variables.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "launcher/process/worker_environment.h"
#include "runtime/base/settings/variable_names.h"

namespace dabke::launcher {
namespace {

bool is_our_own(std::string_view name) {
  for (const std::string_view prefix : {"DABKE_", "HOROVOD_"}) {
    if (name.starts_with(prefix) &&
        std::ranges::find(kLauncherVariables, name.substr(prefix.size())) != kLauncherVariables.end())
      return true;
  }
  return false;
}

bool is_name(std::string_view text) {
  constexpr std::string_view kRest = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.-";
  return !text.empty() && text.find_first_not_of(kRest) == std::string_view::npos;
}

std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return is_whole ? std::optional(number) : std::nullopt;
}

/// Parses ranks such as "0-3,7".
std::optional<std::vector<std::pair<int, int>>> parse_ranks(std::string_view text) {
  std::vector<std::pair<int, int>> ranks;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto dash = part.find('-');
    const auto first = number_of(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number_of(part.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    ranks.emplace_back(*first, *last);
    if (comma == std::string_view::npos) return ranks;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

bool GivenVariable::is_for(int rank) const {
  return ranks.empty() || std::ranges::any_of(ranks, [&](const auto& range) {
           return range.first <= rank && rank <= range.second;
         });
}

Result<GivenVariable> parse_given_variable(std::string_view text) {
  const auto equals = text.find('=');
  const std::string_view left = text.substr(0, equals);
  const auto at = left.find('@');
  GivenVariable variable{std::string(left.substr(0, at)), std::nullopt, {}};
  if (equals != std::string_view::npos) variable.value = text.substr(equals + 1);
  const auto ranks =
      at == std::string_view::npos ? std::vector<std::pair<int, int>>() : parse_ranks(left.substr(at + 1));
  if (!is_name(variable.name) || !ranks || (at != std::string_view::npos && !variable.value)) {
    return Status(Code::invalid_argument,
                  fmt::format("-x {}: expected a variable as NAME, NAME=VALUE or NAME@RANKS=VALUE, as in "
                              "OMP_NUM_THREADS=4 or MODE@0-2,5=fast",
                              text));
  }
  if (is_our_own(variable.name)) {
    return Status(
        Code::invalid_argument,
        fmt::format("-x {}: dabkerun sets {} itself, for each rank; leave it out", text, variable.name));
  }
  variable.ranks = *ranks;
  return variable;
}

Status check_given_variables(const std::vector<GivenVariable>& given,
                             const std::vector<std::string>& environment, int size) {
  for (const GivenVariable& variable : given) {
    const auto is_it = [&](const std::string& each) { return each.starts_with(variable.name + "="); };
    if (!variable.value && std::ranges::none_of(environment, is_it)) {
      return {Code::invalid_argument,
              fmt::format(
                  "-x {0}: not set in the environment of dabkerun: set it, or give a value, as in -x {0}=1",
                  variable.name)};
    }
    for (const auto& [first, last] : variable.ranks) {
      if (last >= size) {
        return {Code::invalid_argument,
                fmt::format("-x {}@{}: the job has no rank {}; its ranks are 0 to {}", variable.name,
                            first == last ? fmt::format("{}", last) : fmt::format("{}-{}", first, last), last,
                            size - 1)};
      }
    }
  }
  return {};
}

std::vector<std::string> with_given_variables(std::vector<std::string> forwarded,
                                              const std::vector<std::string>& environment,
                                              const std::vector<GivenVariable>& given) {
  for (const GivenVariable& variable : given) {
    if (variable.ranks.empty())
      set_variable(forwarded, variable.name,
                   variable.value.value_or(variable_in(environment, variable.name)));
  }
  return forwarded;
}

std::vector<std::pair<std::string, std::string>> variables_of_rank(const std::vector<GivenVariable>& given,
                                                                   int rank) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const GivenVariable& variable : given) {
    if (!variable.ranks.empty() && variable.is_for(rank))
      variables.emplace_back(variable.name, *variable.value);
  }
  return variables;
}

}  // namespace dabke::launcher
