// A process of a simulated elastic job. It trains as the elastic loops of the bindings do. It syncs its
// state, runs steps and commits. It goes to the next epoch when a rank is lost or a change is announced.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/elastic/cooldowns.h"
#include "runtime/bootstrap/elastic/meeting.h"
#include "tests/sim/elastic/elastic_world.h"
#include "tests/sim/elastic/epoch_sim.h"
#include "tests/sim/elastic/sim_process.h"

namespace dabke::test {

class SimWorker {
 public:
  enum class Phase { starting, meeting, joining, syncing, training, leaving, ended };
  /// Calls of a process to its surroundings.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual EpochSim& epoch(std::uint64_t number) = 0;
    virtual void phase_changed(SimWorker& worker) = 0;
    /// Rank 0 has made a commit, and sees no change.
    virtual void root_goes_on() = 0;
    /// The process ends by itself. `failure` is empty for status 0.
    virtual void ended(SimWorker& worker, const std::string& failure) = 0;
  };

  SimWorker(ElasticWorld& world, Owner& owner, bootstrap::WorkerId id, launcher::Slot slot);

  void start();
  /// The process is dead from now on; `why` is the reason.
  void end(std::string why);

  SimProcess& process() { return process_; }
  bootstrap::WorkerId worker_id() const { return process_.worker; }
  const launcher::Slot& slot() const { return slot_; }
  Phase phase() const { return phase_; }
  bool is_alive() const { return phase_ != Phase::ended; }
  const std::string& end_reason() const { return end_reason_; }
  const std::optional<std::uint64_t>& commit() const { return commit_; }
  const TrainingState& committed() const { return committed_; }
  /// "process 3 on a:1 (training, epoch 2, step 7)".
  std::string describe() const;

 private:
  void after(Duration delay, std::function<void()> then);
  void enter(Phase phase);
  void come_to_meeting();
  void try_meeting();
  void take_place(bootstrap::EpochPlace place);
  void watch_changes(std::uint64_t change);
  void sync();
  void send_state(Rank holder);
  void end_sync();
  void step();
  void submit_tensors(int from);
  void end_step();
  void commit_state();
  void leave(bool restores);
  void finish();
  /// Calls `then` when all calls that were submitted have ended. If one fails, the process leaves instead.
  void submit(const std::string& name, CollectiveKind kind, Rank root, const Values& values,
              std::function<void(const Values&)> received, void (SimWorker::*then)());
  Values gradient(bootstrap::WorkerId worker, int tensor) const;
  const bootstrap::EpochPlan& plan() const { return epoch_->plan(); }

  ElasticWorld& world_;
  Owner& owner_;
  SimProcess process_;
  const launcher::Slot slot_;
  Phase phase_ = Phase::starting;
  std::string end_reason_;

  std::unique_ptr<ReplayedStore> store_;
  bootstrap::Arrival arrival_;
  EpochSim* epoch_ = nullptr;
  Rank rank_ = -1;
  std::uint64_t changes_ = 0;  // that this rank has received in this epoch
  int waiting_ = 0;            // calls that have not ended
  bool has_failed_ = false;    // a call in this epoch

  TrainingState state_, committed_, received_;
  std::int64_t sum_ = 0;  // of the results of the current step
  std::optional<std::uint64_t> commit_;
};

}  // namespace dabke::test
