#include "runtime/negotiation/tables/name_key.h"

#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dabke::negotiation {
namespace {

constexpr std::string_view kGroup{"\0group", 6};
constexpr std::string_view kCall{"\0call", 5};
constexpr std::string_view kAmong{"\0among", 6};

}  // namespace

std::string group_key(const std::string& group) { return group + std::string(kGroup); }

bool is_group_key(std::string_view key) { return key.ends_with(kGroup); }

std::optional<std::vector<Rank>> members_named(std::string_view key) {
  if (!key.ends_with(kAmong)) return std::nullopt;
  std::vector<Rank> ranks;
  Rank rank = 0;
  const std::string_view list = key.substr(0, key.find('\0'));
  for (const char* at = list.data() + list.rfind(' ') + 1; at < list.data() + list.size(); ++at) {
    at = std::from_chars(at, list.data() + list.size(), rank).ptr;
    ranks.push_back(rank);
  }
  return ranks;
}

std::string shown(std::string_view key) {
  const std::string_view text = key.substr(0, key.find('\0'));
  if (is_group_key(key)) return fmt::format("group '{}'", text);
  return text.size() == key.size() ? fmt::format("'{}'", text) : std::string(text);
}

std::string NameKey::made_of(const Request& request) {
  if (request.is_group) return group_key(request.name);
  if (is_among_members(request.kind))
    return fmt::format("{} of ranks {}{}", name_of(request.kind), fmt::join(request.ranks, ","), kAmong);
  // One key, whatever the request's name: the n-th barrier of a rank is the n-th of all ranks.
  return std::string(name_of(request.kind)) + std::string(kCall);
}

}  // namespace dabke::negotiation
