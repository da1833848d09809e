// The invariants of an elastic job, checked while it runs.
//   1. All members of an epoch read the same bytes as its plan.
//   2. A rank of an epoch is the process that the plan names, and executes orders of its own epoch alone.
//   3. An operation's result is the sum over the epoch's members, or what the root gave.
//   4. All members that make a commit in an epoch have the same state there, and see the same announced
//      changes.
//   5. The roster's numbers of commits are true: each holder holds the newest one, and nobody holds a newer
//      one. All holders have the same state.
//   6. A member that leaves in good order takes no commit with it that nobody else holds (sim_cluster.cc).
//   7. Operations fail only in an epoch of which a member was lost or given up.
//   8. Newcomers with room join within some commits, and members of unlisted hosts leave. No epoch begins
//      without a reason (sim_cluster.cc).
// The job itself checks that every process ends, and that each learns why (elastic_job.cc). The invariants of
// the negotiation hold in each epoch (tests/sim/invariants.h). A broken invariant is thrown as a Violation.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/bootstrap/elastic/epoch_plan.h"

namespace dabke::test {

/// A tensor of the simulation.
using Values = std::array<std::int64_t, 2>;

/// The state of a training: the steps so far, and what has been learned in them.
struct TrainingState {
  std::int64_t step = 0;
  std::int64_t weights = 0;
  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

class ElasticInvariants {
 public:
  /// A process has read `text` as the plan of the epoch.
  void read_plan(std::uint64_t epoch, bootstrap::WorkerId worker, const std::string& text);
  /// The process, which is in `current_epoch`, executes an order of `order_epoch` as `rank` of the plan.
  void execute(const bootstrap::EpochPlan& plan, Rank rank, bootstrap::WorkerId worker,
               std::uint64_t current_epoch, std::uint64_t order_epoch) const;
  /// The process ends an operation with `result`.
  void receive(const bootstrap::EpochPlan& plan, Rank rank, const std::string& name, const Values& result,
               const Values& expected) const;
  void commit(std::uint64_t epoch, Rank rank, std::uint64_t number, const TrainingState& state,
              std::uint64_t changes);
  /// A member of the plan holds `held`; none: it has no state.
  void hold(const bootstrap::EpochPlan& plan, Rank rank, const std::optional<std::uint64_t>& held) const;
  /// A holder of the plan has sent this state.
  void send_state(std::uint64_t epoch, Rank holder, const TrainingState& state);
  void fail(const bootstrap::EpochPlan& plan, Rank rank, const std::string& name, const Status& why,
            bool is_anybody_lost) const;

  /// The number of commits that were checked, of all ranks.
  std::uint64_t commits() const { return count_; }

 private:
  struct Commit {
    Rank first;
    TrainingState state;
    std::uint64_t changes;
  };
  std::map<std::uint64_t, std::string> plans_;                           // by epoch
  std::map<std::pair<std::uint64_t, std::uint64_t>, Commit> committed_;  // by epoch and number
  std::map<std::uint64_t, std::pair<Rank, TrainingState>> sent_;         // by epoch
  std::uint64_t count_ = 0;
};

}  // namespace dabke::test
