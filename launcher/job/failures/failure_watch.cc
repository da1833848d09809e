#include "launcher/job/failures/failure_watch.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/verdict/blamed_rank.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

/// Ranks that die together are reported in whatever order; what comes within this time is sorted before
/// anybody is blamed.
constexpr auto kSettle = 10ms;
/// More is to come as long as a rank is in the middle of ending (the kernel frees its memory, its supervisor
/// has not run yet). A core file may take longer, and then the others are ended meanwhile.
constexpr auto kEndingLimit = 500ms;
/// A rank that others name as the cause has this long to end by itself, and a look at it comes so often. It
/// may have to wait for a core, and an interpreter takes its time to end. Ended by us it would not be the
/// first failure.
constexpr auto kBlamedLimit = 3s;
constexpr auto kBlamedPause = 50ms;

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
    if (!is_of_agent(end.rank) || end.kind != RankEnd::Kind::signalled || end.value != SIGKILL ||
        end.our_signal != 0)
      continue;
    end.kind = RankEnd::Kind::agent_lost;
    end.is_of_srun = true;
  }
}

TimePoint FailureWatch::begin_look(TimePoint now) {
  look_at_.reset();
  return std::max(ending_limit_, now + kSettle);
}

std::optional<RankEnd> FailureWatch::settle(const JobRanks& ranks, TimePoint now) {
  if (is_open(ranks, now) || std::exchange(is_closed_, true)) return std::nullopt;
  const std::vector<RankEnd> all = ends();
  const RankEnd* first = first_failure(all);
  if (first == nullptr || ranks.have_all_ended()) return std::nullopt;
  if (policy_.after(*first) == FailurePolicy::Answer::go_on) return std::nullopt;
  return *first;
}

/// Sets the time of the next look where it is.
bool FailureWatch::is_open(const JobRanks& ranks, TimePoint now) {
  if (now < ending_limit_ && is_somebody_ending(ranks)) {
    look_at_ = now + kSettle;
  } else if (now < blamed_limit_ && is_blamed_awaited(ranks)) {
    look_at_ = now + kBlamedPause;
  } else {
    return false;
  }
  return true;
}

/// A rank that others name as the cause ends by itself as a rule, after its own last words.
bool FailureWatch::is_somebody_ending(const JobRanks& ranks) const {
  return std::ranges::any_of(ranks.all(), [this](const JobRank& rank) {
    return rank.is_running() && (blamed_.contains(rank.rank()) || rank.state.is_ending);
  });
}

/// A stopped one does not end by itself.
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
  // What a rank does once another has left early follows from that, also where others name it for it.
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
