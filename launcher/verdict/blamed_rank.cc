#include "launcher/verdict/blamed_rank.h"

#include <charconv>

#include <fmt/format.h>

namespace dabke::launcher {

std::optional<Blame> blame_in(std::string_view line, int speaker) {
  if (!line.starts_with('[')) return std::nullopt;
  const std::string mark = fmt::format("dabke rank {} error] ", speaker);
  const auto found = line.find(mark);
  if (found == std::string_view::npos || line.find(']') != found + mark.size() - 2) return std::nullopt;
  constexpr std::string_view kRank = "rank ";
  for (std::string_view rest = line.substr(found + mark.size());;) {
    const auto at = rest.find(kRank);
    if (at == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(at);
    const char* const end_of_line = rest.data() + rest.size();
    int rank = 0;
    const auto [end, error] = std::from_chars(rest.data() + kRank.size(), end_of_line, rank);
    if (error == std::errc() && rank >= 0 && std::string_view(end, end_of_line).starts_with(" on "))
      return Blame{rank, rest.substr(0, rest.find_last_not_of("\r\n") + 1)};
    rest.remove_prefix(kRank.size());
  }
}

std::string early_leave(std::string_view blame, bool has_ended) {
  constexpr std::string_view kAborted = " aborted the job";  // with a text that may name another rank
  if (blame.substr(0, blame.find(':')).ends_with(kAborted)) return "";
  constexpr std::string_view kLeft = "left the job normally", kEnded = "ended with status 0";
  if (const auto at = blame.find(kLeft); at != std::string_view::npos)
    return fmt::format("{}{}{}", kLeft, has_ended ? " (status 0)" : "", blame.substr(at + kLeft.size()));
  if (!has_ended) return "";
  if (const auto at = blame.find(kEnded); at != std::string_view::npos) return std::string(blame.substr(at));
  constexpr std::string_view kWithout = "ended without ";
  const auto at = blame.find(kWithout);
  if (at == std::string_view::npos) return "";
  std::string_view call = blame.substr(at + kWithout.size());
  call = call.substr(0, call.starts_with("dabke.") ? call.find(')') + 1 : call.find_first_of("), "));
  return fmt::format("{} without {}; do all ranks run the same number of steps? See join()", kEnded, call);
}

}  // namespace dabke::launcher
