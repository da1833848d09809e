#include "runtime/bootstrap/elastic/epoch_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "runtime/bootstrap/elastic/words.h"
#include "runtime/store/init_failure.h"

namespace dabke::bootstrap {
namespace {

constexpr std::string_view kMember = "member", kLost = "lost";
// The process sets of all members from here on. Those of all members are usually equal.
constexpr std::string_view kProcessSets = "sets";
// The host of all members from here on, with the identity of its processes: boot id and pid namespace. Every
// member reads the lines of all, so they are short.
constexpr std::string_view kHost = "host";

/// "host", the identity and the name.
std::string host_line(const EpochMember& member) {
  links::ProcessIdentity any = member.process;
  any.pid = 0;
  return fmt::format("{} {} {}\n", kHost, links::to_text(any), one_line(member.host));
}

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

std::string change_key(std::uint64_t change) { return fmt::format("elastic/change/{}", change); }

std::pair<std::string, std::string> loss_note(std::uint64_t epoch, const std::string& why) {
  auto note = store::init_failure_note({Code::peer_lost, why});
  note.first.insert(0, std::to_string(epoch) + "/");  // the epoch's part of the store
  return note;
}

std::string to_text(const EpochPlan& plan) {
  std::string text = fmt::format("{} {}\n", plan.epoch, plan.change);
  std::string process_sets, host;
  for (const EpochMember& member : plan.members) {
    if (const std::string own = one_line(member.process_sets); own != process_sets) {
      text += fmt::format("{} {}\n", kProcessSets, own);
      process_sets = own;
    }
    if (std::string own = host_line(member); own != host) {
      text += own;
      host = std::move(own);
    }
    text += fmt::format("{} {} {} {} {} {}\n", kMember, member.worker, member.former_rank, member.local_rank,
                        optional_word(member.commit), member.process.pid);
  }
  for (const LostMember& lost : plan.lost)
    text += fmt::format("{} {} {}\n{}\n", kLost, lost.rank, one_line(lost.host), one_line(lost.why));
  return text;
}

std::optional<EpochPlan> read_epoch_plan(std::string_view text) {
  EpochPlan plan;
  Words numbers(take_line(text));
  numbers.number(plan.epoch);
  numbers.number(plan.change);
  if (!numbers.are_well_formed()) return std::nullopt;
  EpochMember member;  // with what the lines before say of all members
  while (!text.empty()) {
    Words line(take_line(text));
    const std::string_view kind = line.word();
    if (kind == kProcessSets) {
      member.process_sets = line.rest();
    } else if (kind == kHost) {
      member.process = links::parse_process(line.word());
      member.host = line.rest();
    } else if (kind == kMember) {
      line.number(member.worker);
      line.number(member.former_rank);
      line.number(member.local_rank);
      line.optional_number(member.commit);
      line.number(member.process.pid);
      if (member.host.empty()) return std::nullopt;
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
