#include "launcher/job/failures/failure_watch.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/verdict/blamed_rank.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

/// Ranks that die together are reported in any order. Reports within this time are sorted before any rank is
/// blamed.
constexpr auto kSettle = 10ms;
/// The limit for ranks that are in the middle of ending: the kernel frees their memory, or their supervisor
/// has not run yet. A core file may take longer; then the other ranks are ended meanwhile.
constexpr auto kEndingLimit = 500ms;
/// The time for a rank to end by itself that others name as the cause, and the interval of the checks. It may
/// have to wait for a core, and an interpreter takes its time to end. If we ended it, it would not be the
/// first failure.
constexpr auto kBlamedLimit = 3s;
constexpr auto kBlamedPause = 50ms;

bool was_killed_from_outside(const RankEnd& end) {
  return end.kind == RankEnd::Kind::signalled && end.value == SIGKILL && end.our_signal == 0;
}

}  // namespace

void FailureWatch::take_error_line(Rank speaker, std::string_view line) {
  const auto blame = blame_in(line, speaker);
  if (!blame || blame->rank == speaker) return;
  blamed_.try_emplace(blame->rank, blame->text);
  blamed_first_.try_emplace(speaker, blame->rank);
}

void FailureWatch::take_end(RankEnd end, TimePoint now) {
  const bool is_first = is_failure(end) && !is_closed_ && !look_at_;
  ends_.push_back(std::move(end));
  if (!is_first) return;
  look_at_ = now + kSettle;
  ending_limit_ = now + kEndingLimit;
  blamed_limit_ = now + kBlamedLimit;
}

void FailureWatch::blame_srun(const std::function<bool(Rank)>& is_of_agent) {
  for (RankEnd& end : ends_) {
    if (!is_of_agent(end.rank) || !was_killed_from_outside(end)) continue;
    end.kind = RankEnd::Kind::agent_lost;
    end.is_of_srun = true;
  }
}

TimePoint FailureWatch::begin_look(TimePoint now) {
  look_at_.reset();
  return std::max(ending_limit_, now + kSettle);
}

std::optional<RankEnd> FailureWatch::settle(const JobRanks& ranks, TimePoint now, bool is_srun_killed) {
  if (is_open(ranks, now, is_srun_killed) || std::exchange(is_closed_, true)) return std::nullopt;
  const std::vector<RankEnd> all = ends();
  const RankEnd* first = first_failure(all);
  if (first == nullptr || ranks.have_all_ended()) return std::nullopt;
  return *first;
}

/// True if the failure is not settled yet. Then sets the time of the next check.
bool FailureWatch::is_open(const JobRanks& ranks, TimePoint now, bool is_srun_killed) {
  if (now < ending_limit_ && (is_somebody_ending(ranks) || (is_srun_killed && has_kill_from_outside()))) {
    look_at_ = now + kSettle;
  } else if (now < blamed_limit_ && is_blamed_awaited(ranks)) {
    look_at_ = now + kBlamedPause;
  } else {
    return false;
  }
  return true;
}

bool FailureWatch::has_kill_from_outside() const {
  return std::ranges::any_of(ends_, was_killed_from_outside);
}

/// A rank that others name as the cause usually ends by itself, after printing its own error.
bool FailureWatch::is_somebody_ending(const JobRanks& ranks) const {
  return std::ranges::any_of(ranks.all(), [this](const JobRank& rank) {
    return rank.is_running() && (blamed_.contains(rank.rank()) || rank.state.is_ending);
  });
}

/// A stopped rank does not end by itself.
bool FailureWatch::is_blamed_awaited(const JobRanks& ranks) const {
  return std::ranges::any_of(ranks.all(), [this](const JobRank& rank) {
    return rank.is_running() && blamed_.contains(rank.rank()) && !rank.state.state.starts_with("is stopped");
  });
}

std::vector<RankEnd> FailureWatch::ends() const {
  std::vector<RankEnd> ends = ends_;
  for (RankEnd& end : ends) {
    const auto blame = blamed_.find(end.rank);
    if (blame == blamed_.end()) continue;
    end.is_blamed = true;
    const bool is_good = !is_failure(end);
    if (is_good || end.our_signal != 0) end.early_leave = early_leave(blame->second, is_good);
  }
  // A rank's failure after another rank has left early is a consequence of that, even if others name it as
  // the cause.
  const auto has_left_early = [&](Rank rank) {
    const auto end = std::ranges::find(ends, rank, &RankEnd::rank);
    return end != ends.end() && !end->early_leave.empty();
  };
  for (RankEnd& end : ends) {
    const auto first = blamed_first_.find(end.rank);
    if (end.early_leave.empty() && first != blamed_first_.end() && has_left_early(first->second))
      end.is_blamed = false;
  }
  return ends;
}

}  // namespace dabke::launcher
