#include "tests/sim/elastic/sim_cluster.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace dabke::test {
namespace {

using launcher::Meetings;
using launcher::Membership;

const char* const kJob = "job";

}  // namespace

SimCluster::SimCluster(ElasticWorld& world, launcher::MembershipLimits limits)
    : world_(world), max_np_(limits.max_np), membership_(limits), meetings_(Meetings::open(kJob).take()) {
  world_.store.on_set([this](const std::string& key, const std::string& value) {
    meetings_->offer(fmt::format("{}/{}", kJob, key), value);
    const auto arrivals = meetings_->take_arrivals();
    if (end_) return;
    for (const bootstrap::Arrival& arrival : arrivals) membership_.take_arrival(arrival, world_.now());
    if (!arrivals.empty()) act();
  });
}

void SimCluster::use(std::vector<Host> hosts) {
  if (end_) return;
  has_anything_happened_ = true;
  listed_ = hosts;
  membership_.set_hosts(std::move(hosts), world_.now());
  act();
}

void SimCluster::kill(WorkerId id) {
  if (worker(id).is_alive()) die(worker(id), "killed by SIGKILL");
}

/// An agent kills a process that it has seen stopped for too long.
void SimCluster::stop(WorkerId id, Duration time) {
  SimWorker& stopped = worker(id);
  SimProcess& process = stopped.process();
  if (!stopped.is_alive() || process.gate.is_stopped()) return;
  has_anything_happened_ = true;
  process.gate.stop();
  const std::uint64_t stop = process.gate.stops();
  if (process.epoch > 0 && stopped.phase() != SimWorker::Phase::meeting) {
    EpochSim& current = epoch(process.epoch);
    const auto& members = current.plan().members;
    const auto member = std::ranges::find(members, id, &bootstrap::EpochMember::worker);
    current.fall_silent(static_cast<Rank>(member - members.begin()));
  }
  world_.queue.after(time, [this, &stopped, stop] { wake(stopped, stop); });
  world_.queue.after(world_.peer_timeout, [this, &stopped, stop] {
    const EventGate& gate = stopped.process().gate;
    if (gate.is_stopped() && gate.stops() == stop && !hosts_[stopped.slot().host].is_paused)
      die(stopped, "stopped for too long");
  });
}

void SimCluster::wake(SimWorker& stopped, std::uint64_t stop) {
  EventGate& gate = stopped.process().gate;
  const bool is_host_paused = hosts_[stopped.slot().host].is_paused;  // it wakes with its host then
  if (gate.is_stopped() && gate.stops() == stop && !is_host_paused) gate.wake();
}

void SimCluster::pause_host(const std::string& name, Duration time) {
  SimHost& host = hosts_[name];
  if (std::exchange(host.is_paused, true)) return;
  const std::uint64_t pause = ++host.pauses;
  for (const auto& each : workers_) {
    if (each->slot().host == name) stop(each->process().worker, time);
  }
  world_.queue.after(world_.peer_timeout + world_.delay(), [this, name, pause] { silence(name, pause); });
  world_.queue.after(time, [this, name] {
    SimHost& woken = hosts_[name];
    woken.is_paused = false;
    const auto held = std::exchange(woken.held, {});
    for (const auto& each : workers_) {
      if (each->slot().host != name) continue;
      if (each->process().gate.is_stopped()) each->process().gate.wake();
      if (woken.is_lost && each->is_alive()) kill_later(each->process().worker, "its agent was lost");
    }
    woken.is_lost = false;
    for (const auto& event : held) event();
  });
}

/// dabkerun has received nothing from the agent of the host for too long.
void SimCluster::silence(const std::string& name, std::uint64_t pause) {
  SimHost& host = hosts_[name];
  if (!host.is_paused || host.pauses != pause || end_) return;
  host.is_lost = true;
  for (const auto& each : workers_) {
    const WorkerId id = each->process().worker;
    if (each->slot().host != name || reported_.contains(id)) continue;
    for (const auto& epoch : epochs_) {
      const auto& members = epoch->plan().members;
      const auto member = std::ranges::find(members, id, &bootstrap::EpochMember::worker);
      if (member != members.end()) epoch->give_up(static_cast<Rank>(member - members.begin()));
    }
    report_end(id, "its agent was lost");
  }
  membership_.take_host_loss(name, world_.now());
  act();
}

void SimCluster::lose_host(const std::string& name) {
  for (const auto& each : workers_) {
    if (each->slot().host != name || !each->is_alive()) continue;
    die(*each, "its host was lost");
    report_end(each->process().worker, "its host was lost");
  }
  if (end_) return;
  membership_.take_host_loss(name, world_.now());
  act();
}

std::vector<WorkerId> SimCluster::members() const {
  std::vector<WorkerId> found;
  if (epochs_.empty()) return found;
  for (const auto& member : epochs_.back()->plan().members) {
    if (workers_[static_cast<std::size_t>(member.worker)]->is_alive()) found.push_back(member.worker);
  }
  return found;
}

bool SimCluster::is_over() const {
  return end_ && std::ranges::none_of(workers_, [](const auto& each) { return each->is_alive(); });
}

void SimCluster::phase_changed(SimWorker& worker) {
  if (on_phase_) on_phase_(worker);
}

bool SimCluster::is_listed(const launcher::Slot& slot) const {
  return std::ranges::any_of(
      listed_, [&](const Host& host) { return host.name == slot.host && slot.local_rank < host.slots; });
}

/// Checks that the ranks do not go on for long while a newcomer waits for whom there is room, or while a rank
/// should leave.
void SimCluster::root_goes_on() {
  constexpr int kMostIgnored = 25;
  const std::vector<WorkerId> members = this->members();
  const auto is_unlisted = [&](WorkerId id) { return !is_listed(worker(id).slot()); };
  const auto leaving = std::ranges::count_if(members, is_unlisted);
  const bool may_leave = leaving > 0 && leaving < static_cast<std::ptrdiff_t>(members.size());
  const auto waits = [&](const auto& each) {
    return each->phase() == SimWorker::Phase::meeting && each->process().epoch == 0 &&
           is_listed(each->slot()) && !reported_.contains(each->worker_id());
  };
  const bool is_room = static_cast<int>(members.size()) < max_np_;
  const bool may_join = is_room && std::ranges::any_of(workers_, waits);
  ignored_ = may_leave || may_join ? ignored_ + 1 : 0;
  if (ignored_ <= kMostIgnored) return;
  throw Violation(
      fmt::format("epoch {}: {} commits show no change, and a {}", epochs_.size(), ignored_,
                  may_join ? "newcomer waits though there is room" : "process of an unlisted host stays"));
}

/// Checks that an epoch begins for a reason.
void SimCluster::check_change(const bootstrap::EpochPlan& plan) {
  ignored_ = 0;
  if (std::exchange(has_anything_happened_, false) || epochs_.empty()) return;
  const bootstrap::EpochPlan& before = epochs_.back()->plan();
  if (std::ranges::equal(plan.members, before.members, {}, &bootstrap::EpochMember::worker,
                         &bootstrap::EpochMember::worker))
    throw Violation(
        fmt::format("epoch {} has the members of the epoch before, and nothing has happened to "
                    "the job",
                    plan.epoch));
}

void SimCluster::ended(SimWorker& worker, const std::string& failure) { die(worker, failure); }

/// The process is dead: its links end, and its agent reports how.
void SimCluster::die(SimWorker& worker, const std::string& failure) {
  const WorkerId id = worker.process().worker;
  has_anything_happened_ = true;
  worker.end(failure.empty() ? "status 0" : failure);
  for (const auto& epoch : epochs_) {
    const auto& members = epoch->plan().members;
    const auto member = std::ranges::find(members, id, &bootstrap::EpochMember::worker);
    if (member == members.end()) continue;
    const auto rank = static_cast<Rank>(member - members.begin());
    failure.empty() ? epoch->close(rank) : epoch->lose(rank);
  }
  world_.queue.after(world_.delay(), [this, id, failure, host = worker.slot().host] {
    at_agent(host, [this, id, failure] {
      report_end(id, failure);
      act();
    });
  });
}

/// Runs the event of a host's agent, which may stand still with its host.
void SimCluster::at_agent(const std::string& host, std::function<void()> event) {
  SimHost& on = hosts_[host];
  if (on.is_paused) return on.held.push_back(std::move(event));
  event();
}

void SimCluster::report_end(WorkerId id, const std::string& failure) {
  if (!reported_.insert(id).second || end_) return;
  membership_.take_end(id, failure, world_.now());
}

void SimCluster::act() {
  for (const Membership::Action& action : membership_.take_actions()) {
    if (const auto* const opened = std::get_if<Membership::Open>(&action)) open(*opened);
    const auto* const refused = std::get_if<Membership::Refuse>(&action);
    const bool is_forgotten =
        (world_.mistake == Mistake::forgets_leavers && refused != nullptr && !refused->is_failure) ||
        (world_.mistake == Mistake::forgets_newcomers &&
         std::holds_alternative<Membership::Announce>(action));
    if (!is_forgotten) {
      meetings_->publish(action, [this](const std::string& key, std::string value) {
        world_.store.set(key.substr(std::string_view(kJob).size() + 1), std::move(value));
      });
    }
    if (refused != nullptr) {
      if (!is_forgotten) answered_.insert(refused->worker);
      refuse(*refused);
    }
    if (const auto* const started = std::get_if<Membership::Start>(&action)) start(*started);
    if (const auto* const killed = std::get_if<Membership::Kill>(&action))
      kill_later(killed->worker, killed->why);
    if (const auto* const over = std::get_if<Membership::End>(&action)) end_job(*over);
  }
  const TimePoint deadline = membership_.deadline();
  if (deadline >= tick_at_) return;
  tick_at_ = deadline;
  world_.queue.schedule(deadline, [this] {
    tick_at_ = kNever;
    if (end_) return;
    membership_.tick(world_.now());
    act();
  });
}

void SimCluster::start(const Membership::Start& start) {
  SimWorker::Owner& owner = *this;
  workers_.push_back(std::make_unique<SimWorker>(world_, owner, start.worker, start.slot));
  // The agent of a host that stands still starts the process when it wakes.
  if (hosts_[start.slot.host].is_paused) workers_.back()->process().gate.stop();
  workers_.back()->start();
}

void SimCluster::open(const Membership::Open& opened) {
  const bootstrap::EpochPlan& plan = opened.plan;
  check_change(plan);
  std::vector<SimProcess*> members;
  for (std::size_t rank = 0; rank < plan.members.size(); ++rank) {
    SimWorker& member = worker(plan.members[rank].worker);
    members.push_back(&member.process());
    world_.invariants.hold(plan, static_cast<Rank>(rank), member.commit());
    newcomers_ += plan.epoch > 1 && plan.members[rank].former_rank < 0 ? 1 : 0;
  }
  for (const bootstrap::LostMember& lost : plan.lost) {
    ++losses_;
    lost_roots_ += lost.rank == 0 ? 1 : 0;
  }
  std::function<void(Rank, Rank, const EpochSim::Message&)> leak;
  if (world_.mistake == Mistake::links_outlive_epochs) {
    leak = [this, plan](Rank from, Rank to, const EpochSim::Message& message) {
      this->leak(plan, from, to, message);
    };
  }
  epochs_.push_back(std::make_unique<EpochSim>(world_, plan, members, std::move(leak)));
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    if (members[rank]->gate.is_closed()) epochs_.back()->lose(static_cast<Rank>(rank));
  }
}

void SimCluster::refuse(const Membership::Refuse& refused) {
  ++(refused.is_failure ? refusals_ : leavers_);
  const SimWorker& leaver = worker(refused.worker);
  const auto holds_it = [&](const auto& other) {
    const WorkerId id = other->worker_id();
    return id != refused.worker && !reported_.contains(id) && !answered_.contains(id) &&
           other->commit() >= leaver.commit();
  };
  if (!refused.is_failure && leaver.commit() && std::ranges::none_of(workers_, holds_it))
    throw Violation(leaver.describe() + " leaves with a commit that nobody else holds");
}

void SimCluster::kill_later(WorkerId id, const std::string& why) {
  world_.queue.after(world_.delay(), [this, id, why] {
    at_agent(worker(id).slot().host, [this, id, why] {
      if (worker(id).is_alive()) die(worker(id), why);
    });
  });
}

void SimCluster::end_job(const Membership::End& end) {
  end_ = end;
  for (const auto& each : workers_) {
    const SimProcess& process = each->process();
    const bool is_member_for_ever = each->is_alive() && process.epoch > 0 &&
                                    !reported_.contains(process.worker) &&
                                    !answered_.contains(process.worker);
    if (is_member_for_ever && !end.is_failure)
      throw Violation("the job has ended well without an answer to " + each->describe());
  }
  for (const auto& each : workers_) {
    if (each->is_alive()) kill_later(each->process().worker, "the job has ended");
  }
}

/// Planted: the message reaches the process in the epoch in which it is now.
void SimCluster::leak(const bootstrap::EpochPlan& plan, Rank from, Rank to,
                      const EpochSim::Message& message) {
  const SimProcess& process = worker(plan.members[static_cast<std::size_t>(to)].worker).process();
  if (process.gate.is_closed() || process.gate.is_stopped() || process.epoch == plan.epoch) return;
  EpochSim& now = epoch(process.epoch);
  const auto& members = now.plan().members;
  const auto member = std::ranges::find(members, process.worker, &bootstrap::EpochMember::worker);
  const auto rank = static_cast<Rank>(member - members.begin());
  if (now.is_link(from, rank)) now.deliver(from, rank, *message);
}

}  // namespace dabke::test
