#include "launcher/verdict/hang_verdict.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <sstream>
#include <tuple>

#include <fmt/format.h>

#include "launcher/verdict/outcome.h"
#include "runtime/base/pair_sets.h"
#include "runtime/base/text/call_name.h"
#include "runtime/base/text/counted.h"
#include "runtime/base/text/wait_description.h"
#include "runtime/diagnosis/dumps/short_stack.h"

namespace dabke::launcher {
namespace {

constexpr std::size_t kShownGroups = 3;  // of ranks, so that the whole verdict has at most eight lines
constexpr std::size_t kShownInstead = 3;

struct Wait {  // a wait for one name, or for a join, which has no name
  ProcessSetId process_set = kWorldSet;
  std::string name;
  std::string collective;
  double age = 0;  // the longest
  std::vector<Rank> have;
  std::vector<Rank> missing;
  std::vector<Rank> members;  // the ranks that it waits for; none: all of the set
};

std::string ranks_text(const std::vector<Rank>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", rank_list(ranks));
}

bool has_joined(const std::map<Rank, diagnosis::Dump>& dumps, Rank rank, ProcessSetId process_set) {
  const auto dump = dumps.find(rank);
  return dump != dumps.end() &&
         std::ranges::any_of(dump->second.pending, [&](const diagnosis::Dump::Pending& pending) {
           return pending.collective == "join" && pending.process_set == process_set;
         });
}

/// True for a group with members that this rank has not submitted.
bool is_incomplete(const diagnosis::Dump::Pending& pending) { return pending.state == "incomplete"; }

/// Adds lines for groups that wait for members; true if there are any. Such groups may be the same on all
/// ranks, so that no operation waits for ranks.
bool add_incomplete_groups(std::vector<std::string>& lines, const std::map<Rank, diagnosis::Dump>& dumps) {
  std::map<std::pair<ProcessSetId, std::string>, std::vector<Rank>> ranks_with;
  for (const auto& [rank, dump] : dumps) {
    for (const diagnosis::Dump::Pending& pending : dump.pending) {
      if (is_incomplete(pending)) ranks_with[{pending.process_set, pending.signature}].push_back(rank);
    }
  }
  for (const auto& [part, ranks] : ranks_with) {
    lines.push_back(fmt::format("{} {} submitted {}; the group runs when every rank has submitted all of it",
                                ranks_text(ranks), ranks.size() == 1 ? "has" : "have", part.second));
  }
  return !ranks_with.empty();
}

/// A barrier differs from a tensor named "barrier".
bool has_tensors(const std::string& collective) {
  return collective != "barrier" && !collective.starts_with("add_process_set") &&
         !collective.starts_with("remove_process_set");
}

/// True if it waits only for the ranks in its signature.
bool is_among_members(const diagnosis::Dump::Pending& pending) {
  return pending.collective.ends_with("_among_members");
}

/// Returns the ranks in a signature such as "... of ranks 0, 3".
std::vector<Rank> ranks_listed(const std::string& signature) {
  std::vector<Rank> ranks;
  const auto list = signature.find(" of ranks ");
  std::istringstream in(list == std::string::npos ? "" : signature.substr(list + 10));
  for (Rank rank = 0; in >> rank; in.ignore(1)) ranks.push_back(rank);
  return ranks;
}

/// Returns the names for which some ranks wait and which others of the set have not submitted, the oldest
/// first.
std::vector<Wait> waits_of(const std::map<Rank, diagnosis::Dump>& dumps, int size) {
  std::map<std::tuple<ProcessSetId, std::string, bool>, Wait> by_name;
  std::map<ProcessSetId, std::vector<Rank>> sets;
  for (const auto& [rank, dump] : dumps) {
    sets.insert(dump.process_sets.begin(), dump.process_sets.end());
    for (const diagnosis::Dump::Pending& pending : dump.pending) {
      if (pending.state == "queued" || is_incomplete(pending)) continue;
      const std::string name = pending.collective == "join" ? ""
                               : is_among_members(pending)  ? pending.signature
                                                            : pending.name;
      Wait& wait = by_name[{pending.process_set, name, has_tensors(pending.collective)}];
      wait.process_set = pending.process_set;
      wait.name = name;
      wait.collective = pending.collective;
      wait.age = std::max(wait.age, pending.age);
      wait.have.push_back(rank);
      if (is_among_members(pending)) wait.members = ranks_listed(pending.signature);
    }
  }
  std::vector<Wait> waits;
  for (auto& entry : by_name) {
    Wait& wait = entry.second;
    std::vector<Rank> ranks = wait.members.empty() ? sets[wait.process_set] : wait.members;
    if (ranks.empty()) {
      ranks.resize(static_cast<std::size_t>(size));
      std::iota(ranks.begin(), ranks.end(), 0);
    }
    std::ranges::set_difference(ranks, wait.have, std::back_inserter(wait.missing));
    if (wait.members.empty())
      std::erase_if(wait.missing, [&](Rank rank) { return has_joined(dumps, rank, wait.process_set); });
    if (!wait.missing.empty()) waits.push_back(std::move(wait));
  }
  std::ranges::stable_sort(waits, std::ranges::greater(), &Wait::age);
  // A join waits as long as other ranks have work. The operations for which those wait explain more.
  const auto is_join = [](const Wait& wait) { return wait.name.empty(); };
  if (!std::ranges::all_of(waits, is_join)) std::erase_if(waits, is_join);
  return waits;
}

std::string event_name(const diagnosis::Dump::Event& event) {
  return name_of_call(event.collective, event.name);
}

std::string event_text(const diagnosis::Dump::Event& event) {
  return fmt::format("{}, {:.1f} s ago", event_name(event), event.age);
}

std::string last_submit(const diagnosis::Dump& dump) {
  const auto events = diagnosis::events_of_epoch(dump);
  const auto last =
      std::ranges::find(events.rbegin(), events.rend(), "submitted", &diagnosis::Dump::Event::what);
  return last == events.rend() ? "it has made no call lately" : "its last call was " + event_text(*last);
}

/// Returns the batch that the rank is in; null if there is none.
const diagnosis::Dump::Event* running(const diagnosis::Dump& dump) {
  const diagnosis::Dump::Event* batch = nullptr;
  for (const diagnosis::Dump::Event& event : diagnosis::events_of_epoch(dump)) {
    if (event.what == "started") batch = &event;
    if (event.what == "finished" || event.what == "failed") batch = nullptr;
  }
  return batch;
}

/// Returns what the rank does instead of `wait`.
WaitDescription instead_of(const diagnosis::Dump& dump, const Wait& wait) {
  WaitDescription at;
  for (const diagnosis::Dump::Pending& pending : dump.pending) {
    const bool is_this = !is_incomplete(pending) && pending.name == wait.name &&
                         pending.process_set == wait.process_set &&
                         has_tensors(pending.collective) == has_tensors(wait.collective);
    if (pending.state == "queued" || pending.collective == "join" || is_this) continue;
    if (at.waits_for.empty()) at.waits_s = pending.age;
    ++at.waits_for_count;
    if (at.waits_for.size() < kShownInstead) {
      at.waits_for.push_back(is_incomplete(pending)
                                 ? fmt::format("the rest of a group ({})", pending.signature)
                                 : name_of_call(pending.collective, pending.name));
    }
  }
  if (const diagnosis::Dump::Event* batch = running(dump)) {
    at.inside = event_name(*batch);
    at.inside_s = batch->age;
  }
  return at;
}

/// Ranks that wait at the same point, and do the same there.
struct RankGroup {
  std::vector<const diagnosis::Dump*> ranks;
  WaitDescription at;  // of the first
  std::vector<std::string> stack;
  std::string key;
};

std::vector<RankGroup> groups_of(const std::map<Rank, diagnosis::Dump>& dumps, const Wait& wait) {
  std::vector<RankGroup> groups;
  for (const Rank rank : wait.missing) {
    const auto dump = dumps.find(rank);
    if (dump == dumps.end()) continue;
    RankGroup group{{&dump->second},
                    instead_of(dump->second, wait),
                    diagnosis::short_stack(dump->second.application_stack, dump->second.stacks),
                    ""};
    WaitDescription without_times = group.at;
    without_times.waits_s = without_times.inside_s = -1;
    group.key = fmt::format("{}\n{}", describe(without_times), fmt::join(group.stack, "\n"));
    const auto same = std::ranges::find(groups, group.key, &RankGroup::key);
    if (same == groups.end()) {
      groups.push_back(std::move(group));
    } else {
      same->ranks.push_back(&dump->second);
    }
  }
  return groups;
}

std::size_t ranks_after(const std::vector<RankGroup>& groups, std::size_t shown) {
  std::size_t count = 0;
  for (std::size_t i = shown; i < groups.size(); ++i) count += groups[i].ranks.size();
  return count;
}

bool is_idle(const WaitDescription& at) { return at.waits_for.empty() && at.inside.empty(); }

void add_group(std::vector<std::string>& lines, const RankGroup& group, bool is_alone) {
  const diagnosis::Dump& first = *group.ranks.front();
  std::string who = fmt::format("rank {} on host {} (pid {})", first.rank, first.host, first.pid);
  if (group.ranks.size() > 1) {
    std::vector<Rank> ranks;
    for (const diagnosis::Dump* each : group.ranks) ranks.push_back(each->rank);
    who = fmt::format("each of {}", ranks_text(ranks));
  }
  std::string text = fmt::format("{}: {}", who, describe(group.at));
  if (is_idle(group.at)) text += "; " + last_submit(first);
  if (!group.stack.empty()) text += is_alone ? "; it is at" : "; at " + group.stack.front();
  lines.push_back(std::move(text));
  if (is_alone)
    for (const std::string& line : group.stack) lines.push_back("  " + line);
}

/// Returns the advice to the program's author.
std::string advice_on(const RankGroup& group) {
  if (is_idle(group.at))
    return "what to do: find out what keeps it there (a slow data loader, a branch that only some ranks "
           "take). If ranks have unequal numbers of steps, let each call join at its end";
  if (group.at.inside.empty())
    return "what to do: make the same calls on all ranks, in an order in which none blocks another";
  return fmt::format("what to do: check {} first: its operation does not finish",
                     ranks_text({group.ranks.front()->rank}));
}

/// Returns the submissions by their number. A rank that sends or receives has none to compare: its messages
/// are other ones than those of other ranks, and they count.
std::map<std::uint64_t, const diagnosis::Dump::Event*> submissions(const diagnosis::Dump& dump) {
  std::map<std::uint64_t, const diagnosis::Dump::Event*> out;
  for (const diagnosis::Dump::Event& event : diagnosis::events_of_epoch(dump)) {
    if (event.what != "submitted") continue;
    if (is_pair(event.process_set)) return {};
    out[event.number] = &event;
  }
  return out;
}

/// Returns the first difference between two ranks' sequences of submissions, as far back as the dumps go,
/// with the lower rank first. Returns nothing if one rank is merely behind.
std::optional<std::string> first_divergence(const diagnosis::Dump& a, const diagnosis::Dump& b) {
  const auto& [lower, higher] =
      std::minmax(a, b, [](const diagnosis::Dump& x, const diagnosis::Dump& y) { return x.rank < y.rank; });
  const auto one = submissions(lower);
  const auto other = submissions(higher);
  for (const auto& [number, event] : one) {
    const auto theirs = other.find(number);
    if (theirs == other.end()) continue;  // it is older than the dump's history, or has not been submitted
    if (theirs->second->name == event->name && theirs->second->collective == event->collective) continue;
    return fmt::format("calls differ at call {}: rank {} called {}, rank {} called {}", number, lower.rank,
                       event_name(*event), higher.rank, event_name(*theirs->second));
  }
  return std::nullopt;
}

/// Lists which ranks are in which batch. Called when nothing waits for negotiation.
void add_batches(std::vector<std::string>& lines, const std::map<Rank, diagnosis::Dump>& dumps, int size) {
  std::map<std::pair<std::string, std::uint64_t>, std::vector<Rank>> ranks_in;  // by name and order
  std::map<std::string, int> batches_named;
  const diagnosis::Dump* longest = nullptr;
  for (const auto& [rank, dump] : dumps) {
    const diagnosis::Dump::Event* const batch = running(dump);
    std::vector<Rank>& ranks = ranks_in[batch == nullptr ? std::pair(std::string(), std::uint64_t{0})
                                                         : std::pair(event_name(*batch), batch->number)];
    if (ranks.empty() && batch != nullptr) ++batches_named[event_name(*batch)];
    ranks.push_back(rank);
    if (batch != nullptr && (longest == nullptr || batch->age > running(*longest)->age)) longest = &dump;
  }
  if (longest == nullptr) {
    lines.push_back(dumps.size() == static_cast<std::size_t>(size)
                        ? "no operation waits for a rank now"
                        : fmt::format("no operation waits for a rank, by the reports of {} of {} ranks",
                                      dumps.size(), size));
    return;
  }
  lines.push_back(fmt::format("{} has been running on rank {} for {:.1f} s", event_name(*running(*longest)),
                              longest->rank, running(*longest)->age));
  for (const auto& [batch, ranks] : ranks_in) {
    const auto& [name, number] = batch;
    const char* const are = ranks.size() == 1 ? "is" : "are";
    if (name.empty()) {
      lines.push_back(fmt::format("{} {} in no operation", ranks_text(ranks), are));
    } else {  // the order distinguishes two of one name
      lines.push_back(fmt::format("{} {} inside {}{}", ranks_text(ranks), are, name,
                                  batches_named[name] > 1 ? fmt::format(" (order {})", number) : ""));
    }
  }
  if (ranks_in.size() - ranks_in.count({"", 0}) > 1) lines.push_back(kDifferentOperations);
}

/// Lists stopped ranks first. Other ranks may be silent only because a stopped rank did not ask them.
void add_silent(std::vector<std::string>& lines, const std::map<Rank, std::string>& silent) {
  std::map<std::pair<bool, std::string>, std::vector<Rank>> ranks_in;
  for (const auto& [rank, state] : silent)
    ranks_in[{!state.starts_with("is stopped"), state}].push_back(rank);
  for (const auto& [key, ranks] : ranks_in) {
    const bool is_one = ranks.size() == 1;
    const char* const what = !key.first ? (is_one ? "does not answer" : "do not answer")
                                        : (is_one ? "has sent no report" : "have sent no report");
    lines.push_back(
        fmt::format("{} {}: {} process {}", ranks_text(ranks), what, is_one ? "its" : "each", key.second));
  }
}

}  // namespace

std::vector<std::string> hang_verdict(const std::map<Rank, diagnosis::Dump>& dumps, int size,
                                      const std::map<Rank, std::string>& silent) {
  std::vector<std::string> lines;
  const std::vector<Wait> waits = waits_of(dumps, size);
  if (waits.empty()) {
    if (!add_incomplete_groups(lines, dumps)) add_batches(lines, dumps, size);
  } else {
    const Wait& wait = waits.front();
    lines.push_back(fmt::format(
        "{}{} waits for {}: {} {} been waiting for {:.1f} s",
        wait.name.empty() ? wait.collective : name_of_call(wait.collective, wait.name),
        wait.process_set == kWorldSet || is_pair(wait.process_set)
            ? ""
            : fmt::format(" of process set {}", wait.process_set),
        ranks_text(wait.missing), ranks_text(wait.have), wait.have.size() == 1 ? "has" : "have", wait.age));
    const std::vector<RankGroup> groups = groups_of(dumps, wait);
    for (std::size_t i = 0; i < std::min(groups.size(), kShownGroups); ++i)
      add_group(lines, groups[i], groups.size() == 1);
    if (groups.size() > kShownGroups)
      lines.push_back(
          fmt::format("and {} that do something else", counted(ranks_after(groups, kShownGroups), "rank")));
    if (!groups.empty()) {
      if (const auto divergence =
              first_divergence(dumps.at(wait.have.front()), *groups.front().ranks.front()))
        lines.push_back(*divergence);
      lines.push_back(advice_on(groups.front()));
    }
    if (waits.size() > 1)
      lines.push_back(fmt::format("{} more {} stuck", waits.size() - 1,
                                  waits.size() == 2 ? "operation is" : "operations are"));
  }
  add_silent(lines, silent);
  return lines;
}

}  // namespace dabke::launcher
