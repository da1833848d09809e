// The ranks of a job: where each runs, and its progress. No thread, process or descriptor.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "launcher/agent_protocol/protocol.h"
#include "launcher/hosts/placement.h"

namespace dabke::launcher {

class AgentLink;

struct JobRank {
  RankPlacement placement;
  AgentLink* agent = nullptr;  // of its host
  pid_t pid = 0;               // 0: it has not been started
  pid_t supervisor = 0;
  bool has_ended = false;
  bool is_over = false;  // nothing of it is left
  RankState state{};     // of its process, as its agent last reported it; empty: never

  int rank() const { return placement.rank; }
  bool is_running() const { return pid != 0 && !has_ended; }
};

class JobRanks {
 public:
  /// Called in the order of ranks.
  void add(RankPlacement placement, AgentLink* agent) {
    add({.placement = std::move(placement), .agent = agent});
  }
  void add(JobRank rank);

  std::span<const JobRank> all() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  /// Returns null if that agent has no such rank.
  const JobRank* find(const AgentLink& agent, int rank) const;
  /// True if something of a rank is left.
  bool are_any_left() const;
  /// True if something of a rank of that agent is left.
  bool are_any_left(const AgentLink& agent) const;
  bool have_all_ended() const;
  bool has_any_ended() const;

  // Each takes a rank of all().
  void set_started(int rank, pid_t pid, pid_t supervisor);
  void set_ended(int rank) { at(rank).has_ended = true; }
  void set_over(int rank) { at(rank).is_over = true; }
  void set_state(const RankState& state) { at(state.rank).state = state; }

  std::vector<RankPlacement> placements() const;
  /// Sets new placements: the same ranks, in the same order, on hosts under other names.
  void place(const std::vector<RankPlacement>& placements);

 private:
  JobRank& at(int rank);

  std::vector<JobRank> ranks_;
};

}  // namespace dabke::launcher
