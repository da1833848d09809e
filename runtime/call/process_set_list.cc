#include "runtime/call/process_set_list.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dabke {

Result<std::vector<std::vector<Rank>>> parse_process_sets(std::string_view text, int world_size) {
  const auto refuse = [&](std::string_view why) {
    return Status(
        Code::invalid_argument,
        fmt::format(
            "process sets '{}' (from DABKE_PROCESS_SETS, then from dabke_init's options): {}; expected ranks "
            "from 0 to {}, separated by commas, and sets separated by semicolons, such as 0,1;2,3",
            text, why, world_size - 1));
  };
  std::vector<std::vector<Rank>> sets;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::vector<Rank>& set = sets.emplace_back();
    std::string_view members = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(members.size() + 1, rest.size()));
    while (!members.empty()) {
      const std::string_view member = members.substr(0, members.find(','));
      members.remove_prefix(std::min(member.size() + 1, members.size()));
      Rank rank = -1;
      const auto parsed = std::from_chars(member.data(), member.data() + member.size(), rank);
      if (parsed.ec != std::errc() || parsed.ptr != member.data() + member.size()) {
        return refuse(fmt::format("'{}' is not a rank", member));
      }
      if (rank < 0 || rank >= world_size) return refuse(fmt::format("there is no rank {}", rank));
      set.push_back(rank);
    }
    if (set.empty()) return refuse("a set is empty");
    std::ranges::sort(set);
    if (std::ranges::adjacent_find(set) != set.end()) return refuse("a rank is twice in one set");
    if (static_cast<int>(set.size()) == world_size)
      return refuse(
          fmt::format("a set of ranks {} exists already: the world, whose id is 0", ranks_to_string(set)));
    if (std::ranges::find(sets.begin(), sets.end() - 1, set) != sets.end() - 1)
      return refuse(fmt::format("a set of ranks {} is given twice", ranks_to_string(set)));
  }
  return sets;
}

std::string process_sets_to_string(const std::vector<std::vector<Rank>>& sets) {
  std::string out;
  for (const std::vector<Rank>& set : sets)
    out += fmt::format("{}{}", out.empty() ? "" : ";", fmt::join(set, ","));
  return out;
}

std::string ranks_to_string(const std::vector<Rank>& ranks) {
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", ranks[i]);
    if (last > i) out += fmt::format("{}{}", last == i + 1 ? ", " : "-", ranks[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace dabke
