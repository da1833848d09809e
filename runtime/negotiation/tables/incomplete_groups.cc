#include "runtime/negotiation/tables/incomplete_groups.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/negotiation/tables/inquiry.h"

namespace dabke::negotiation {
namespace {

constexpr std::size_t kShownMembers = 8;

bool holds(const IncompleteGroup& group, const Request& member) {
  return std::ranges::any_of(group.members, [&](const RequestRef& one) { return one->name == member.name; });
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShownMembers); ++i) {
    text += fmt::format("{}'{}'", i ? ", " : "", names[i]);
  }
  if (names.size() > kShownMembers) text += fmt::format(" and {} more", names.size() - kShownMembers);
  return text;
}

bool is_whole(const wire::GroupAnswerMessage& answer) {
  return answer.size > 0 && answer.came == answer.size;
}

/// "rank 0 on ada has submitted 2 of 3 members: 'a', 'b'; ranks 1, 2 none". `union_of` is null, or has the
/// members that have come on any rank; then the text also names what each rank lacks.
std::string parts_text(const GroupInquiry& inquiry, const Topology& topology,
                       const std::set<std::string>* union_of) {
  using Part = std::pair<std::uint32_t, std::vector<std::string>>;
  std::map<Part, std::pair<std::uint32_t, std::vector<Rank>>> parts;
  std::vector<Rank> joined, silent;
  for (const Rank rank : inquiry.asked) {
    const auto found = inquiry.answers.find(rank);
    if (found == inquiry.answers.end()) {
      silent.push_back(rank);
    } else if (found->second.joined) {
      joined.push_back(rank);
    } else {
      auto& [came, ranks] = parts[{found->second.size, found->second.members}];
      came = found->second.came;
      ranks.push_back(rank);
    }
  }
  std::vector<std::string> texts;
  for (const auto& [part, rest] : parts) {
    const auto& [size, members] = part;
    const auto& [came, ranks] = rest;
    const std::string have =
        fmt::format("{} {} submitted", topology.names(ranks), ranks.size() == 1 ? "has" : "have");
    if (size == 0) {
      texts.push_back(have + " none of it");
      continue;
    }
    std::string text = came == size
                           ? fmt::format("{} all {} members: {}", have, size, listed(members))
                           : fmt::format("{} {} of {} members: {}", have, came, size, listed(members));
    std::vector<std::string> missing;
    if (union_of != nullptr && came < size) {
      std::ranges::set_difference(*union_of, members, std::back_inserter(missing));
      text += missing.empty() ? fmt::format(" (no rank has submitted the other {})", size - came)
                              : fmt::format(" (missing: {})", listed(missing));
    }
    texts.push_back(std::move(text));
  }
  if (!joined.empty()) texts.push_back(fmt::format("{} joined", topology.names(joined)));
  if (!silent.empty()) texts.push_back(fmt::format("no answer from {}", topology.names(silent)));
  return fmt::format("{}", fmt::join(texts, "; "));
}

std::set<std::string> members_of_all(const GroupInquiry& inquiry) {
  std::set<std::string> all;
  for (const auto& [rank, answer] : inquiry.answers) all.insert(answer.members.begin(), answer.members.end());
  return all;
}

}  // namespace

std::uint32_t IncompleteGroup::came() const {
  std::uint32_t tensors = 0;
  for (const RequestRef& member : members) tensors += static_cast<std::uint32_t>(member->tensors.size());
  return tensors;
}

std::string IncompleteGroup::describe(const std::string& name) const {
  std::vector<std::string> names;
  for (const RequestRef& member : members) {
    for (const TensorSpec& tensor : member->tensors) names.push_back(tensor.name);
  }
  std::ranges::sort(names);
  return fmt::format("{} of {} members of group '{}': {}", names.size(), size, name, listed(names));
}

Status IncompleteGroups::add(const RequestRef& member, const std::string& group, std::uint32_t size,
                             TimePoint now) {
  const auto key = Key(member->process_set, group);
  auto found = groups_.find(key);
  // A member that had come before the failure has come again, so the caller has begun the next group.
  if (found != groups_.end() && !found->second.failed.is_ok() && holds(found->second, *member)) {
    groups_.erase(found);
    found = groups_.end();
  }
  if (found == groups_.end()) {
    found = groups_.emplace(key, IncompleteGroup{}).first;
    found->second.size = size;
    found->second.since = found->second.asked = now;
  }
  IncompleteGroup& there = found->second;
  there.members.push_back(member);
  if (there.failed.is_ok()) return {};
  Status failed = there.failed;
  if (there.came() >= there.size) groups_.erase(found);
  return failed;
}

bool IncompleteGroups::finish(ProcessSetId set, const std::string& group) {
  const auto found = groups_.find({set, group});
  if (found == groups_.end()) return false;
  const bool awaited = found->second.awaited;
  groups_.erase(found);
  return awaited;
}

bool IncompleteGroups::fail(ProcessSetId set, const std::string& group, const Status& why) {
  IncompleteGroup* const there = find(set, group);
  if (there == nullptr) return false;
  there->failed = why;
  return true;
}

IncompleteGroup* IncompleteGroups::find(ProcessSetId set, const std::string& group) {
  const auto found = groups_.find({set, group});
  return found == groups_.end() || !found->second.failed.is_ok() ? nullptr : &found->second;
}

const IncompleteGroup* IncompleteGroups::find(ProcessSetId set, const std::string& group) const {
  return const_cast<IncompleteGroups*>(this)->find(set, group);
}

bool is_whole_somewhere(const GroupInquiry& inquiry) {
  return std::ranges::any_of(inquiry.answers, [](const auto& one) { return is_whole(one.second); });
}

Status group_failure(const GroupInquiry& inquiry, const Topology& topology) {
  if (!inquiry.everybody_answered()) return {};
  std::set<std::uint32_t> sizes;
  bool any_incomplete = false;
  const wire::GroupAnswerMessage* refusing = nullptr;
  for (const auto& [rank, answer] : inquiry.answers) {
    if (answer.joined) continue;
    if (answer.size == 0) return {};
    if (refusing == nullptr && !answer.refused.is_ok()) refusing = &answer;
    sizes.insert(answer.size);
    any_incomplete = any_incomplete || !is_whole(answer);
  }
  if (!any_incomplete) return {};  // complete everywhere: an order decides, with a run or an error
  if (refusing != nullptr) {
    return {
        refusing->refused.code(),
        fmt::format(
            "group '{}' of process set {} cannot run: {}: {}. No data has moved and the job continues",
            inquiry.group, inquiry.process_set, topology.name(refusing->rank), refusing->refused.message())};
  }
  const bool sizes_differ = sizes.size() > 1;
  const std::set<std::string> all = members_of_all(inquiry);
  if (!sizes_differ && all.size() <= *sizes.begin()) return {};
  return {
      Code::mismatch,
      fmt::format("Mismatched group {} for group '{}' in process set {}: {}. Every rank of the process set "
                  "must submit the same members with the same group_size.",
                  sizes_differ ? "size" : "members", inquiry.group, inquiry.process_set,
                  parts_text(inquiry, topology, nullptr))};
}

std::optional<std::string> incomplete_group_text(const GroupInquiry& inquiry, const Topology& topology) {
  const bool any_incomplete = std::ranges::any_of(
      inquiry.answers, [](const auto& one) { return one.second.size > 0 && !is_whole(one.second); });
  if (!any_incomplete) return std::nullopt;
  const std::set<std::string> all = members_of_all(inquiry);
  return fmt::format(
      "Stalled for {} s: group '{}' of process set {} is incomplete: {}. A group runs when every rank has "
      "submitted all its group_size members.",
      seconds_to_text(inquiry.age), inquiry.group, inquiry.process_set, parts_text(inquiry, topology, &all));
}

}  // namespace dabke::negotiation
