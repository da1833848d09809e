#include "launcher/job/job_ranks.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace dabke::launcher {

void JobRanks::add(JobRank rank) {
  assert(ranks_.empty() || ranks_.back().rank() < rank.rank());
  ranks_.push_back(std::move(rank));
}

const JobRank* JobRanks::find(const AgentLink& agent, int rank) const {
  const auto found = std::ranges::lower_bound(ranks_, rank, {}, &JobRank::rank);
  return found == ranks_.end() || found->rank() != rank || found->agent != &agent ? nullptr : &*found;
}

bool JobRanks::are_any_left() const { return !std::ranges::all_of(ranks_, &JobRank::is_over); }

bool JobRanks::are_any_left(const AgentLink& agent) const {
  return std::ranges::any_of(ranks_,
                             [&](const JobRank& rank) { return rank.agent == &agent && !rank.is_over; });
}

bool JobRanks::have_all_ended() const { return std::ranges::all_of(ranks_, &JobRank::has_ended); }

bool JobRanks::has_any_ended() const { return std::ranges::any_of(ranks_, &JobRank::has_ended); }

void JobRanks::set_started(int rank, pid_t pid, pid_t supervisor) {
  JobRank& started = at(rank);
  started.pid = pid;
  started.supervisor = supervisor;
}

std::vector<RankPlacement> JobRanks::placements() const {
  std::vector<RankPlacement> placements;
  for (const JobRank& rank : ranks_) placements.push_back(rank.placement);
  return placements;
}

void JobRanks::place(const std::vector<RankPlacement>& placements) {
  assert(placements.size() == ranks_.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i].placement = placements[i];
}

JobRank& JobRanks::at(int rank) {
  const auto found = std::ranges::lower_bound(ranks_, rank, {}, &JobRank::rank);
  assert(found != ranks_.end() && found->rank() == rank);
  return *found;
}

}  // namespace dabke::launcher
