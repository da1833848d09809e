#include "runtime/bootstrap/elastic/epoch_plan.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "runtime/bootstrap/elastic/words.h"

namespace dabke::bootstrap {
namespace {

constexpr std::string_view kMember = "member", kLost = "lost";

}  // namespace

std::optional<std::uint64_t> EpochPlan::newest_commit() const {
  std::optional<std::uint64_t> newest;
  for (const EpochMember& member : members) newest = std::max(newest, member.commit);
  return newest;
}

std::vector<int> EpochPlan::holders() const {
  const auto newest = newest_commit();
  std::vector<int> ranks;
  for (std::size_t rank = 0; newest && rank < members.size(); ++rank) {
    if (members[rank].commit == newest) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::string plan_key(std::uint64_t epoch) { return fmt::format("elastic/plan/{}", epoch); }

std::string to_text(const EpochPlan& plan) {
  std::string text = fmt::format("{}\n", plan.epoch);
  for (const EpochMember& member : plan.members) {
    text +=
        fmt::format("{} {} {} {} {} {} {}\n", kMember, member.worker, member.former_rank, member.local_rank,
                    optional_word(member.commit), links::to_text(member.process), one_line(member.host));
  }
  for (const LostMember& lost : plan.lost)
    text += fmt::format("{} {} {}\n{}\n", kLost, lost.rank, one_line(lost.host), one_line(lost.why));
  return text;
}

std::optional<EpochPlan> read_epoch_plan(std::string_view text) {
  EpochPlan plan;
  const auto epoch = number_of<std::uint64_t>(take_line(text));
  if (!epoch) return std::nullopt;
  plan.epoch = *epoch;
  while (!text.empty()) {
    Words line(take_line(text));
    const std::string_view kind = line.word();
    if (kind == kMember) {
      EpochMember member;
      line.number(member.worker);
      line.number(member.former_rank);
      line.number(member.local_rank);
      line.optional_number(member.commit);
      member.process = links::parse_process(line.word());
      member.host = line.rest();
      plan.members.push_back(member);
    } else if (kind == kLost) {
      LostMember lost;
      line.number(lost.rank);
      lost.host = line.rest();
      lost.why = take_line(text);
      plan.lost.push_back(lost);
    } else {
      return std::nullopt;
    }
    if (!line.are_well_formed()) return std::nullopt;
  }
  return plan;
}

}  // namespace dabke::bootstrap
