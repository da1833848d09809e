#include "runtime/timeline/epoch_roster.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "runtime/base/text/counted.h"

namespace dabke::timeline {
namespace {

/// Removes the text up to `end` from `text`, and returns it.
std::string_view take_until(std::string_view& text, char end) {
  const auto length = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return taken;
}

std::optional<Rank> rank_in(std::string_view word, Rank least) {
  Rank rank = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), rank);
  const bool is_whole = error == std::errc() && end == word.data() + word.size();
  return is_whole && rank >= least ? std::optional(rank) : std::nullopt;
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// True if the rank of the epoch before goes on or was lost.
bool is_accounted_for(const EpochRoster& roster, Rank rank) {
  return std::ranges::find(roster.members, rank, &EpochRoster::Member::former_rank) != roster.members.end() ||
         std::ranges::find(roster.lost, rank, &EpochRoster::Lost::rank) != roster.lost.end();
}

}  // namespace

std::string to_text(const EpochRoster& roster) {
  std::string text;
  for (const auto& member : roster.members)
    text += fmt::format("member {} {}\n", member.former_rank, member.host);
  for (const auto& lost : roster.lost)
    text += fmt::format("lost {} {} {}\n", lost.rank, lost.host, one_line(lost.why));
  return text + (roster.is_late ? "late\n" : "");
}

std::optional<EpochRoster> read_epoch_roster(std::string_view text) {
  EpochRoster roster;
  while (!text.empty()) {
    std::string_view line = take_until(text, '\n');
    if (line == "late") {
      roster.is_late = true;
      continue;
    }
    const std::string_view kind = take_until(line, ' ');
    const auto rank = rank_in(take_until(line, ' '), kind == "member" ? -1 : 0);
    if (!rank) return std::nullopt;
    if (kind == "member") {
      roster.members.push_back({*rank, std::string(line)});
    } else if (kind == "lost") {
      const std::string host(take_until(line, ' '));
      roster.lost.push_back({*rank, host, std::string(line)});
    } else {
      return std::nullopt;
    }
  }
  return roster;
}

std::string change_text(const EpochRoster& roster, const EpochRoster* before) {
  std::vector<std::string> parts, newcomers;
  for (const auto& lost : roster.lost)
    parts.push_back(fmt::format("rank {} (host {}) {}", lost.rank, lost.host, lost.why));
  for (Rank rank = 0; before != nullptr && rank < static_cast<Rank>(before->members.size()); ++rank) {
    if (!is_accounted_for(roster, rank))
      parts.push_back(fmt::format("rank {} (host {}) leaves", rank,
                                  before->members[static_cast<std::size_t>(rank)].host));
  }
  for (std::size_t rank = 0; rank < roster.members.size(); ++rank) {
    if (roster.members[rank].former_rank < 0)
      newcomers.push_back(fmt::format("{} (host {})", rank, roster.members[rank].host));
  }
  if (!newcomers.empty()) {
    parts.push_back(fmt::format("{} {} {}", newcomers.size() == 1 ? "rank" : "ranks",
                                fmt::join(newcomers, ", "), newcomers.size() == 1 ? "joins" : "join"));
  }
  const std::size_t staying = roster.members.size() - newcomers.size();
  parts.push_back(before == nullptr
                      ? fmt::format("{} {} on", counted(staying, "rank"), staying == 1 ? "goes" : "go")
                      : fmt::format("{} of {} go on", staying, counted(before->members.size(), "rank")));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace dabke::timeline
