#include "launcher/hosts/hostlist.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "launcher/hosts/hosts.h"
#include "launcher/hosts/placement.h"

namespace dabke::launcher {
namespace {

using Names = std::vector<std::string>;
constexpr auto kMostNames = static_cast<std::size_t>(kMostRanks);
/// Longer numbers are not part of a host's name.
constexpr std::size_t kMostDigits = 18;

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.size() > kMostDigits || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

/// Splits at the commas outside of brackets. Returns nothing if brackets do not match.
std::optional<std::vector<std::string_view>> split_outside_brackets(std::string_view text) {
  std::vector<std::string_view> parts;
  bool is_inside = false;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if ((c == '[' && is_inside) || (c == ']' && !is_inside)) return std::nullopt;
    if (c == '[' || c == ']') is_inside = c == '[';
    if (c != ',' || is_inside) continue;
    parts.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  parts.push_back(text.substr(begin));
  return is_inside ? std::nullopt : std::optional(parts);
}

/// Returns the numbers in a text such as "01-03,7", as strings of the same width.
std::optional<Names> numbers_in(std::string_view text) {
  Names numbers;
  for (bool is_last = false; !is_last;) {
    const auto comma = text.find(',');
    is_last = comma == std::string_view::npos;
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(is_last ? text.size() : comma + 1);
    const auto dash = part.find('-');
    const std::string_view first = part.substr(0, dash);
    const auto low = whole_number(first);
    const auto high = dash == std::string_view::npos ? low : whole_number(part.substr(dash + 1));
    if (!low || !high || *high < *low || *high - *low >= kMostNames - numbers.size()) return std::nullopt;
    for (std::uint64_t number = *low; number <= *high; ++number)
      numbers.push_back(fmt::format("{:0{}}", number, first.size()));
  }
  return numbers;
}

bool is_part_of_name(std::string_view text) {
  return std::ranges::none_of(text, [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '=' || c == '@' || c == '/' || c == ':';
  });
}

/// Expands one name with any number of brackets.
std::optional<Names> names_of(std::string_view part) {
  Names names{""};
  while (!part.empty()) {
    const auto open = std::min(part.find('['), part.size());
    if (!is_part_of_name(part.substr(0, open))) return std::nullopt;
    for (std::string& name : names) name += part.substr(0, open);
    part.remove_prefix(open);
    if (part.empty()) break;
    const auto close = part.find(']');
    const auto numbers = numbers_in(part.substr(1, close - 1));
    if (!numbers || names.size() * numbers->size() > kMostNames) return std::nullopt;
    Names longer;
    for (const std::string& name : names) {
      for (const std::string& number : *numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    part.remove_prefix(close + 1);
  }
  return names.front().empty() ? std::nullopt : std::optional(std::move(names));
}

}  // namespace

Result<Names> parse_hostlist(std::string_view text, std::string_view source) {
  const auto refuse = [&](std::string_view part) {
    return Status(Code::invalid_argument,
                  fmt::format("{} is '{}', and '{}' in it is not a list of hosts: expected names with ranges "
                              "in brackets, as in n[01-03,7], {} hosts at most; give the hosts with -H",
                              source, text, part, kMostNames));
  };
  const auto parts = split_outside_brackets(text);
  if (!parts) return refuse(text);
  Names hosts;
  for (const std::string_view part : *parts) {
    const auto names = names_of(part);
    if (!names || names->size() > kMostNames - hosts.size()) return refuse(part);
    hosts.insert(hosts.end(), names->begin(), names->end());
  }
  return hosts;
}

Result<std::vector<int>> parse_repeated_counts(std::string_view text, std::string_view source) {
  std::vector<int> counts;
  std::string_view rest = text;
  for (bool is_last = false; !is_last;) {
    const auto comma = rest.find(',');
    is_last = comma == std::string_view::npos;
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(is_last ? rest.size() : comma + 1);
    const auto times = part.find("(x");
    const bool is_repeated = times != std::string_view::npos && part.ends_with(')');
    const auto count = whole_number(part.substr(0, times));
    const auto repeats = is_repeated ? whole_number(part.substr(times + 2, part.size() - times - 3))
                                     : std::optional<std::uint64_t>(1);
    if ((times != std::string_view::npos && !is_repeated) || !count || !repeats || *count < 1 ||
        *count > static_cast<std::uint64_t>(kMostSlots) || *repeats < 1 ||
        *repeats > kMostNames - counts.size()) {
      return Status(Code::invalid_argument,
                    fmt::format("{} is '{}', and '{}' in it is not a number of slots: expected numbers from "
                                "1 up, as in 2(x3),1; give the hosts and their slots with -H",
                                source, text, part));
    }
    counts.insert(counts.end(), *repeats, static_cast<int>(*count));
  }
  return counts;
}

}  // namespace dabke::launcher
