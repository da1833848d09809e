// A job as its membership sees it, for tests: processes come and go as the test demands.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/elastic/membership.h"

namespace dabke::test {

using launcher::Host;
using launcher::Membership;
using launcher::MembershipLimits;
using launcher::Slot;
using launcher::WorkerId;

/// The time is set by the test, too.
class Played {
 public:
  explicit Played(MembershipLimits limits, std::vector<Host> hosts = {{"a", 4}}) : membership_(limits) {
    membership_.set_hosts(std::move(hosts), now);
    take();
  }

  void comes(WorkerId worker, std::uint64_t epoch, std::optional<std::uint64_t> commit = {}) {
    bootstrap::Arrival arrival{.worker = worker,
                               .visit = ++visits_[worker],
                               .epoch = epoch,
                               .commit = commit,
                               .host = "",
                               .process = {},
                               .process_sets = ""};
    membership_.take_arrival(arrival, now);
    take();
  }
  void all_come(std::uint64_t epoch, std::optional<std::uint64_t> commit = {}) {
    for (const auto& member : std::vector(plan.members)) comes(member.worker, epoch, commit);
  }
  void ends(WorkerId worker, const std::string& failure = "killed by SIGKILL") {
    membership_.take_end(worker, failure, now);
    take();
  }
  void hosts(std::vector<Host> hosts) {
    membership_.set_hosts(std::move(hosts), now);
    take();
  }
  void loses_host(const std::string& host) {
    membership_.take_host_loss(host, now);
    take();
  }
  void passes(Duration time) {
    now += time;
    membership_.tick(now);
    take();
  }
  std::vector<WorkerId> members() const {
    std::vector<WorkerId> workers;
    for (const auto& member : plan.members) workers.push_back(member.worker);
    return workers;
  }
  TimePoint deadline() const { return membership_.deadline(); }
  std::string summary() const { return membership_.summary(now); }

  TimePoint now{std::chrono::hours(1)};
  std::vector<Membership::Start> starts;
  std::vector<WorkerId> killed;
  bootstrap::EpochPlan plan{.epoch = 0, .change = 0, .members = {}, .lost = {}};
  std::vector<std::uint64_t> answered_visits;
  std::vector<Membership::Announce> announced;
  std::vector<Membership::Refuse> refused;
  std::optional<Membership::End> end;

 private:
  void take() {
    for (Membership::Action& action : membership_.take_actions()) {
      if (auto* start = std::get_if<Membership::Start>(&action)) starts.push_back(*start);
      if (auto* kill = std::get_if<Membership::Kill>(&action)) killed.push_back(kill->worker);
      if (auto* open = std::get_if<Membership::Open>(&action)) {
        plan = open->plan;
        answered_visits = open->visits;
      }
      if (auto* announce = std::get_if<Membership::Announce>(&action)) announced.push_back(*announce);
      if (auto* refuse = std::get_if<Membership::Refuse>(&action)) refused.push_back(*refuse);
      if (auto* over = std::get_if<Membership::End>(&action)) end = *over;
    }
  }

  Membership membership_;
  std::map<WorkerId, std::uint64_t> visits_;
};

}  // namespace dabke::test
