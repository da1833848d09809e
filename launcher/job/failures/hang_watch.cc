#include "launcher/job/failures/hang_watch.h"

#include <utility>

#include "launcher/verdict/hang_verdict.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

/// Ranks take stacks before they send a dump. Dumps that come later lead to another verdict.
constexpr auto kGatherTime = 2s;

/// The dumps as they would be if no time had passed. While nothing else changes, they lead to one verdict.
std::map<Rank, diagnosis::Dump> without_ages(std::map<Rank, diagnosis::Dump> dumps) {
  for (auto& entry : dumps) {
    for (diagnosis::Dump::Pending& pending : entry.second.pending) pending.age = 0;
    for (diagnosis::Dump::Event& event : entry.second.events) event.age = 0;
  }
  return dumps;
}

}  // namespace

void HangWatch::take(std::vector<diagnosis::Dump> dumps, const JobRanks& ranks, TimePoint now) {
  for (diagnosis::Dump& dump : dumps) take(std::move(dump), ranks, now);
  if (judge_at_ && dumps_.size() == ranks.all().size()) judge(ranks);
}

void HangWatch::take(diagnosis::Dump dump, const JobRanks& ranks, TimePoint now) {
  // A rank that sends another dump has detected a new incident.
  if (dumps_.empty() || dump.incident != incident_ || dumps_.contains(dump.rank)) {
    if (judge_at_) judge(ranks);  // from the dumps of the last incident
    dumps_.clear();
    incident_ = dump.incident;
    judge_at_ = now + kGatherTime;
  } else if (!judge_at_ && !ranks.has_any_ended()) {
    judge_at_ = now + kGatherTime;  // a late dump, which may change the verdict
  }
  const Rank rank = dump.rank;
  dumps_.insert_or_assign(rank, std::move(dump));
}

void HangWatch::note_failure(const JobRanks& ranks) {
  for (const JobRank& rank : ranks.all()) {
    if (!rank.has_ended) states_at_failure_[rank.rank()] = rank.state.state;
  }
}

void HangWatch::judge(const JobRanks& ranks) {
  judge_at_.reset();
  const auto silent = silent_ranks(ranks);
  // An explanation of a stall is not repeated when the job fails because of it.
  if (incident_ == 0 && !last_.empty()) return;
  Verdict verdict = hang_verdict(without_ages(dumps_), ranks.size(), silent);
  if (verdict == last_) return;
  last_ = std::move(verdict);
  on_verdict_(hang_verdict(dumps_, ranks.size(), silent));
}

/// Drops the dumps of ranks that were stopped: those count as silent, too.
std::map<Rank, std::string> HangWatch::silent_ranks(const JobRanks& ranks) {
  std::map<Rank, std::string> silent;
  for (const JobRank& rank : ranks.all()) {
    const auto noted = states_at_failure_.find(rank.rank());
    const std::string at_failure = noted == states_at_failure_.end() ? "" : noted->second;
    // The rank that was stopped when the job failed is the one that matters. It continues in order to end.
    // What it reports then differs from its state while the others waited.
    const bool stood_still = at_failure.starts_with("is stopped");
    if (stood_still) dumps_.erase(rank.rank());
    if (dumps_.contains(rank.rank())) continue;
    if (stood_still || (rank.has_ended && !at_failure.empty())) {
      silent[rank.rank()] = at_failure;
    } else if (!rank.has_ended) {
      silent[rank.rank()] = rank.state.state;
    }
  }
  return silent;
}

}  // namespace dabke::launcher
