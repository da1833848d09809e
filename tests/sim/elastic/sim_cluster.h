// The hosts of a simulated elastic job, with their processes, and dabkerun with its membership.
//
// The membership and the texts in the store are the real ones. The agents are simulated: they start and kill
// processes, and report how these end. An agent that stands still with its whole host is lost by its silence.
// When it wakes it kills what is left there, because dabkerun has closed the connection.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/elastic/meetings.h"
#include "launcher/elastic/membership.h"
#include "tests/sim/elastic/elastic_world.h"
#include "tests/sim/elastic/epoch_sim.h"
#include "tests/sim/elastic/sim_worker.h"

namespace dabke::test {

using launcher::Host;
using launcher::WorkerId;

class SimCluster final : private SimWorker::Owner {
 public:
  SimCluster(ElasticWorld& world, launcher::MembershipLimits limits);

  /// Called after each change of a process's phase.
  void on_phase(std::function<void(SimWorker&)> on_phase) { on_phase_ = std::move(on_phase); }

  // Events of the job.
  void use(std::vector<Host> hosts);
  void kill(WorkerId worker);
  void stop(WorkerId worker, Duration time);
  void pause_host(const std::string& host, Duration time);
  /// The host is gone with all its processes. It may come back.
  void lose_host(const std::string& host);

  /// Members of the current epoch whose processes live, by rank.
  std::vector<WorkerId> members() const;
  SimWorker& worker(WorkerId id) { return *workers_.at(static_cast<std::size_t>(id)); }
  const std::vector<std::unique_ptr<SimWorker>>& workers() const { return workers_; }
  std::uint64_t epochs() const { return epochs_.size(); }
  /// The number of members that were lost so far, of all epochs.
  std::uint64_t losses() const { return losses_; }
  /// The number of times that rank 0 was among them.
  std::uint64_t lost_roots() const { return lost_roots_; }
  std::uint64_t refusals() const { return refusals_; }
  std::uint64_t leavers() const { return leavers_; }
  std::uint64_t newcomers() const { return newcomers_; }
  bool is_paused(const std::string& host) { return hosts_[host].is_paused; }
  const std::optional<launcher::Membership::End>& end() const { return end_; }
  bool is_over() const;

 private:
  EpochSim& epoch(std::uint64_t number) override { return *epochs_.at(number - 1); }
  void phase_changed(SimWorker& worker) override;
  void root_goes_on() override;
  void ended(SimWorker& worker, const std::string& failure) override;

  void die(SimWorker& worker, const std::string& failure);
  void at_agent(const std::string& host, std::function<void()> event);
  void report_end(WorkerId worker, const std::string& failure);
  void wake(SimWorker& worker, std::uint64_t stop);
  void silence(const std::string& host, std::uint64_t pause);
  void act();
  void start(const launcher::Membership::Start& start);
  void open(const launcher::Membership::Open& opened);
  bool is_listed(const launcher::Slot& slot) const;
  void check_change(const bootstrap::EpochPlan& plan);
  void refuse(const launcher::Membership::Refuse& refused);
  void kill_later(WorkerId worker, const std::string& why);
  void end_job(const launcher::Membership::End& end);
  void leak(const bootstrap::EpochPlan& plan, Rank from, Rank to, const EpochSim::Message& message);

  struct SimHost {
    std::uint64_t pauses = 0;
    bool is_paused = false, is_lost = false;
    std::vector<std::function<void()>> held;  // events of its agent while it stands still
  };

  ElasticWorld& world_;
  const int max_np_;
  launcher::Membership membership_;
  std::unique_ptr<launcher::Meetings> meetings_;
  std::function<void(SimWorker&)> on_phase_;
  std::map<std::string, SimHost> hosts_;
  std::vector<std::unique_ptr<SimWorker>> workers_;  // by id
  std::vector<std::unique_ptr<EpochSim>> epochs_;    // by number, from 1 on
  std::vector<Host> listed_;
  bool has_anything_happened_ = false;  // to the job since the current epoch was opened
  int ignored_ = 0;                     // commits in a row that should have shown a change
  std::set<WorkerId> reported_;         // whose end was reported to dabkerun
  std::set<WorkerId> answered_;         // that are not part of the job any more
  std::optional<launcher::Membership::End> end_;
  TimePoint tick_at_ = kNever;
  std::uint64_t losses_ = 0, lost_roots_ = 0, refusals_ = 0, leavers_ = 0, newcomers_ = 0;
};

}  // namespace dabke::test
