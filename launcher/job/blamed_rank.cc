#include "launcher/job/blamed_rank.h"

#include <charconv>

#include <fmt/format.h>

namespace dabke {

std::optional<int> blamed_rank(std::string_view line, int speaker) {
  if (!line.starts_with('[')) return std::nullopt;
  const std::string mark = fmt::format("dabke rank {} error] ", speaker);
  const auto found = line.find(mark);
  if (found == std::string_view::npos || line.find(']') != found + mark.size() - 2) return std::nullopt;
  constexpr std::string_view kRank = "rank ";
  for (std::string_view rest = line.substr(found + mark.size());;) {
    const auto at = rest.find(kRank);
    if (at == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(at + kRank.size());
    int rank = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), rank);
    if (error == std::errc() && rank >= 0 &&
        std::string_view(end, rest.data() + rest.size()).starts_with(" on "))
      return rank;
  }
}

}  // namespace dabke
