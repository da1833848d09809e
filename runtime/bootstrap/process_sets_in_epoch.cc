#include "runtime/bootstrap/process_sets_in_epoch.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/bootstrap/elastic/words.h"
#include "runtime/bootstrap/other_launchers.h"
#include "runtime/bootstrap/roster.h"

namespace dabke::bootstrap {
namespace {

constexpr char kPart = '|', kAmongMembers = 'm';

/// Removes the text before `end` from `text`, with `end`, and returns it.
std::string_view take_until(std::string_view& text, char end) {
  const auto place = std::min(text.find(end), text.size());
  const std::string_view found = text.substr(0, place);
  text.remove_prefix(std::min(place + 1, text.size()));
  return found;
}

std::string_view configured_in(std::string_view text) { return take_until(text, kPart); }

/// The sets of the program in the text of a member. What makes no sense is left out.
FirstSets added_in(std::string_view text) {
  (void)take_until(text, kPart);
  FirstSets found;
  found.next_id = number_of<ProcessSetId>(take_until(text, kPart)).value_or(1);
  while (!text.empty()) {
    std::string_view one = take_until(text, ';');
    std::string_view id = take_until(one, ':');
    FirstSet set;
    set.is_among_members = id.ends_with(kAmongMembers);
    if (set.is_among_members) id.remove_suffix(1);
    set.id = number_of<ProcessSetId>(id).value_or(kWorldSet);
    while (!one.empty()) set.ranks.push_back(number_of<Rank>(take_until(one, ',')).value_or(-1));
    if (set.id > kWorldSet) found.sets.push_back(std::move(set));
  }
  return found;
}

/// The ranks of the epoch before, in this epoch.
std::map<Rank, Rank> renumbering_of(const EpochPlan& plan) {
  std::map<Rank, Rank> now;
  for (std::size_t rank = 0; rank < plan.members.size(); ++rank) {
    if (plan.members[rank].former_rank >= 0) now[plan.members[rank].former_rank] = static_cast<Rank>(rank);
  }
  return now;
}

/// Why the set does not go on, if one of its ranks is gone.
std::string loss_of(ProcessSetId id, Rank gone, const EpochPlan& plan) {
  const auto lost = std::ranges::find(plan.lost, gone, &LostMember::rank);
  return lost == plan.lost.end()
             ? fmt::format("process set {} had rank {}, which left before epoch {}", id, gone, plan.epoch)
             : fmt::format("process set {} had rank {} on {}, which was lost before epoch {}", id, gone,
                           lost->host, plan.epoch);
}

/// Adds the sets of the configuration.
void add_configured(const EpochPlan& plan, FirstSets& first) {
  const auto sets = parse_process_sets(configured_in(plan.members.front().process_sets), kMostProcesses);
  if (!sets.is_ok()) return;  // the members have refused the text before
  const auto size = static_cast<int>(plan.members.size());
  for (const std::vector<Rank>& ranks : *sets) {
    const ProcessSetId id = first.next_id++;
    if (ranks.back() < size) {
      first.sets.push_back({id, ranks});
      first.lost.erase(id);
    } else {
      first.lost[id] = fmt::format(
          "process set {} of the configuration has rank {}, but epoch {} has only {} "
          "ranks",
          id, ranks.back(), plan.epoch, size);
    }
  }
}

}  // namespace

std::string process_sets_to_text(const std::string& configured, const FirstSets& sets) {
  std::string text = fmt::format("{}{}{}{}", configured, kPart, sets.next_id, kPart);
  std::string_view separator;
  for (const FirstSet& set : sets.sets) {
    text += fmt::format("{}{}{}:{}", separator, set.id, set.is_among_members ? "m" : "",
                        fmt::join(set.ranks, ","));
    separator = ";";
  }
  return text;
}

FirstSets process_sets_in(const EpochPlan& plan, const FirstSets& before) {
  FirstSets first;
  first.lost = before.lost;
  add_configured(plan, first);
  const ProcessSetId first_added = first.next_id;
  const std::map<Rank, Rank> now = renumbering_of(plan);
  std::map<ProcessSetId, std::pair<FirstSet, int>> listed;  // with the number of its members that list it
  for (const EpochMember& member : plan.members) {
    const FirstSets added = added_in(member.process_sets);
    first.next_id = std::max(first.next_id, added.next_id);
    for (const FirstSet& set : added.sets) {
      if (set.id < first_added || member.former_rank < 0) continue;
      const auto [found, is_new] = listed.try_emplace(set.id, set, 0);
      const auto& ranks = found->second.first.ranks;
      found->second.second += std::ranges::count(ranks, member.former_rank) > 0 ? 1 : 0;
    }
  }
  for (auto& [id, entry] : listed) {
    auto& [set, listings] = entry;
    const auto gone = std::ranges::find_if_not(set.ranks, [&](Rank rank) { return now.contains(rank); });
    if (gone != set.ranks.end()) {
      first.lost[id] = loss_of(id, *gone, plan);
    } else if (listings < static_cast<int>(set.ranks.size())) {
      first.lost[id] =
          fmt::format("process set {} was not there on all of its ranks when epoch {} began; add it again",
                      id, plan.epoch);
    } else {
      for (Rank& rank : set.ranks) rank = now.at(rank);
      first.sets.push_back(std::move(set));
    }
  }
  return first;
}

Status check_process_sets(const EpochPlan& plan) {
  const std::string_view of_root = configured_in(plan.members.front().process_sets);
  for (std::size_t rank = 1; rank < plan.members.size(); ++rank) {
    const std::string_view theirs = configured_in(plan.members[rank].process_sets);
    if (theirs != of_root)
      return process_sets_mismatch(std::string(of_root), static_cast<Rank>(rank), std::string(theirs));
  }
  return {};
}

}  // namespace dabke::bootstrap
