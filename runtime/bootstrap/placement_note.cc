#include "runtime/bootstrap/placement_note.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

#include <fmt/format.h>

namespace dabke::bootstrap {
namespace {

constexpr std::size_t kMostNamedParts = 8;

/// Removes a leading number and the space after it from `text`, and returns the number; negative: there is
/// none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto size = static_cast<std::size_t>(end - text.data());
  if (error != std::errc() || size == text.size() || *end != ' ') return -1;
  text.remove_prefix(size + 1);
  return number;
}

std::string host_of(int rank, const std::vector<PlacedRanks>& placed) {
  const auto found = std::ranges::find_if(
      placed, [&](const PlacedRanks& each) { return each.first <= rank && rank <= each.last; });
  return found == placed.end() ? "" : found->host;
}

}  // namespace

std::string placement_note(const std::vector<std::string>& hosts) {
  std::string note;
  for (std::size_t first = 0; first < hosts.size();) {
    std::size_t last = first;
    while (last + 1 < hosts.size() && hosts[last + 1] == hosts[first]) ++last;
    note += fmt::format("{} {} {}\n", first, last, hosts[first]);
    first = last + 1;
  }
  return note;
}

std::vector<PlacedRanks> read_placement_note(std::string_view note) {
  std::vector<PlacedRanks> placed;
  while (!note.empty()) {
    const auto end = std::min(note.find('\n'), note.size());
    std::string_view line = note.substr(0, end);
    note.remove_prefix(std::min(end + 1, note.size()));
    const int first = take_number(line), last = take_number(line);
    if (first >= 0 && last >= first && !line.empty()) placed.push_back({first, last, std::string(line)});
  }
  return placed;
}

std::string name_ranks(const std::vector<int>& ranks, const std::vector<PlacedRanks>& placed) {
  std::string text;
  std::size_t parts = 0;
  for (std::size_t i = 0; i < ranks.size() && parts < kMostNamedParts; ++parts) {
    const std::string host = host_of(ranks[i], placed);
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1 &&
           host_of(ranks[last + 1], placed) == host)
      ++last;
    text += text.empty() ? "" : ", ";
    text += last == i ? fmt::format("rank {}", ranks[i]) : fmt::format("ranks {}-{}", ranks[i], ranks[last]);
    if (!host.empty()) text += " on " + host;
    i = last + 1;
    if (parts + 1 == kMostNamedParts && i < ranks.size())
      text += fmt::format(" and {} more", ranks.size() - i);
  }
  return text;
}

}  // namespace dabke::bootstrap
