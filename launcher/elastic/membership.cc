#include "launcher/elastic/membership.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include <fmt/format.h>

#include "launcher/elastic/members_summary.h"
#include "runtime/base/text/counted.h"

namespace dabke::launcher {
namespace {

/// A member of the current epoch that has left it.
constexpr WorkerId kNobody = -1;

}  // namespace

void Membership::set_hosts(std::vector<Host> hosts, TimePoint now) {
  hosts_ = std::move(hosts);
  if (next_worker_ == 0 && !hosts_.empty()) waits_since_.reset();  // from now on for the first processes
  for (auto& [id, worker] : workers_) worker.is_leaving = !is_listed(worker.slot);
  look(now);
}

void Membership::take_arrival(const bootstrap::Arrival& arrival, TimePoint now) {
  const auto found = workers_.find(arrival.worker);
  const bool is_member = found != workers_.end() && found->second.rank >= 0;
  const bool is_current = arrival.epoch == 0 ? !is_member : arrival.epoch == plan_.epoch && is_member;
  if (is_over_ || found == workers_.end() || found->second.is_doomed || !is_current) {
    actions_.emplace_back(
        Refuse{arrival.worker, arrival.visit, true,
               fmt::format("this process was written off: it comes from epoch {}, and the job "
                           "went on without it in epoch {}",
                           arrival.epoch, plan_.epoch)});
    return;
  }
  found->second.waits = arrival;
  crash_loops_.take_arrival();
  look(now);
}

void Membership::take_end(WorkerId id, const std::string& failure, TimePoint now) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return;
  const Worker worker = found->second;
  workers_.erase(found);
  const int rank = worker.rank;
  if (failure.empty()) {
    is_finishing_ = is_finishing_ || rank >= 0 || plan_.epoch == 0;
  } else {
    crash_loops_.take_failure(failure);
    if (rank >= 0) lost_.push_back({rank, worker.slot.host, failure});
  }
  // A newcomer that ends before it has come, however it ends, would be started again and again.
  if (!worker.has_left) cooldowns_.note_failure(worker.slot, now);
  look(now);
}

void Membership::take_host_loss(const std::string& host, TimePoint now) {
  cooldowns_.note_loss(host, now);
  look(now);
}

bool Membership::is_listed(const Slot& slot) const {
  return std::ranges::any_of(
      hosts_, [&](const Host& host) { return host.name == slot.host && slot.local_rank < host.slots; });
}

bool Membership::is_slot_taken(const Slot& slot) const {
  return std::ranges::any_of(workers_, [&](const auto& each) { return each.second.slot == slot; });
}

int Membership::live_members() const {
  return static_cast<int>(
      std::ranges::count_if(workers_, [](const auto& each) { return each.second.rank >= 0; }));
}

/// Members that have not come yet. Before the first epoch: all processes that have been started.
std::vector<WorkerId> Membership::awaited() const {
  std::vector<WorkerId> absent;
  for (const auto& [id, worker] : workers_) {
    if (!worker.waits && (plan_.epoch == 0 || worker.rank >= 0)) absent.push_back(id);
  }
  return absent;
}

std::vector<WorkerId> Membership::waiting_newcomers() const {
  std::vector<WorkerId> found;
  for (const auto& [id, worker] : workers_) {
    if (worker.waits && worker.rank < 0 && !worker.is_leaving) found.push_back(id);
  }
  const auto place = [&](WorkerId id) {
    const Slot& slot = workers_.at(id).slot;
    return std::tuple(std::ranges::find(hosts_, slot.host, &Host::name), slot.local_rank);
  };
  std::ranges::sort(found, {}, place);
  return found;
}

/// Survivors in their old order, then newcomers.
std::vector<WorkerId> Membership::next_members() const {
  std::vector<WorkerId> members;
  for (const auto& member : plan_.members) {
    if (workers_.contains(member.worker)) members.push_back(member.worker);
  }
  if (is_finishing_) return members;
  for (const WorkerId id : waiting_newcomers()) {
    if (static_cast<int>(members.size()) < limits_.max_np) members.push_back(id);
  }
  return members;
}

bool Membership::must_meet() const {
  return plan_.epoch == 0 || !lost_.empty() || std::ranges::any_of(workers_, [](const auto& each) {
           return each.second.waits && each.second.rank >= 0;
         });
}

/// Members whose slot is no longer listed.
int Membership::leaving_members() const {
  return static_cast<int>(std::ranges::count_if(
      workers_, [](const auto& each) { return each.second.is_leaving && each.second.rank >= 0; }));
}

/// True if a member is to leave, and somebody else may go on.
bool Membership::can_anybody_leave() const {
  const int leaving = leaving_members();
  const bool is_place_for_newcomer = !waiting_newcomers().empty() && limits_.max_np > 1;
  return leaving > 0 && (leaving < live_members() || is_place_for_newcomer);
}

void Membership::look(TimePoint now) {
  if (is_over_) return;
  looked_at_ = now;
  check_end();
  if (is_over_) return;
  start_workers(now);
  if (must_meet()) {
    meet(now);
  } else {
    waits_since_.reset();
    announce();
  }
}

void Membership::start_workers(TimePoint now) {
  if (is_finishing_) return;
  for (const Host& host : hosts_) {
    for (int local_rank = 0; local_rank < host.slots; ++local_rank) {
      const auto staying =
          std::ranges::count_if(workers_, [](const auto& each) { return !each.second.is_leaving; });
      if (staying >= limits_.max_np + limits_.spares) return;
      const Slot slot{host.name, local_rank};
      if (is_slot_taken(slot) || cooldowns_.is_cooling(slot, now)) continue;
      const WorkerId id = next_worker_++;
      workers_[id].slot = slot;
      actions_.emplace_back(Start{id, slot});
    }
  }
}

/// Answers members whose slot is no longer listed, once others hold what they hold. If newcomers need their
/// places to get it, those leave for whom somebody else still holds it.
void Membership::let_leavers_go() {
  std::optional<std::uint64_t> newest, kept;
  for (const auto& [id, worker] : workers_) {
    if (!worker.waits || worker.rank < 0) continue;
    newest = std::max(newest, worker.waits->commit);
    if (!worker.is_leaving) kept = std::max(kept, worker.waits->commit);
  }
  const bool are_all_free = kept >= newest && (kept || live_members() > leaving_members());
  auto too_many = live_members() + static_cast<int>(waiting_newcomers().size()) - limits_.max_np;
  WorkerId keeper = kNobody;
  std::vector<WorkerId> leavers;  // the last rank first
  for (const auto& member : plan_.members) {
    const auto found = workers_.find(member.worker);
    if (found == workers_.end() || !found->second.is_leaving || !found->second.waits) continue;
    if (keeper == kNobody && found->second.waits->commit == newest) keeper = member.worker;
    leavers.insert(leavers.begin(), member.worker);
  }
  for (const WorkerId id : leavers) {
    if (are_all_free || (id != keeper && too_many-- > 0)) dismiss(id);
  }
}

void Membership::dismiss(WorkerId id) {
  Worker& worker = workers_.at(id);
  actions_.emplace_back(Refuse{id, worker.waits->visit, false,
                               fmt::format("host {} is no longer listed for this job", worker.slot.host)});
  worker.waits.reset();
  worker.has_left = true;
  plan_.members[static_cast<std::size_t>(std::exchange(worker.rank, -1))].worker = kNobody;
}

void Membership::meet(TimePoint now) {
  if (!waits_since_) waits_since_ = now;
  const bool is_late = now >= *waits_since_ + limits_.wait_limit;
  const std::vector<WorkerId> absent = awaited();
  const int least = is_finishing_                  ? 1  // nobody comes any more
                    : plan_.epoch == 0 && !is_late ? std::max(limits_.first_np, limits_.min_np)
                                                   : limits_.min_np;
  if (!absent.empty()) {
    if (!is_late) return;
    for (const WorkerId id : absent) {
      if (std::exchange(workers_.at(id).is_doomed, true)) continue;
      actions_.emplace_back(
          Kill{id, fmt::format("did not come to the meeting within {} s (--elastic-timeout)",
                               std::chrono::ceil<std::chrono::seconds>(limits_.wait_limit).count())});
    }
    return;
  }
  let_leavers_go();
  const std::vector<WorkerId> members = next_members();
  if (static_cast<int>(members.size()) >= least) return open(members);
  const std::string& last_failure = crash_loops_.last_failure();
  if (is_late)
    end(true, fmt::format("{} of at least {} ranks are there after {} s (--min-np, --elastic-timeout){}",
                          members.size(), limits_.min_np,
                          std::chrono::ceil<std::chrono::seconds>(limits_.wait_limit).count(),
                          last_failure.empty() ? "" : "; the last failure: " + last_failure));
}

void Membership::open(const std::vector<WorkerId>& members) {
  Open opened;
  bootstrap::EpochPlan& plan = opened.plan;
  plan.epoch = plan_.epoch + 1;
  plan.change = change_;
  plan.lost = std::exchange(lost_, {});
  for (const WorkerId id : members) {
    Worker& worker = workers_.at(id);
    const bootstrap::Arrival& arrival = *worker.waits;
    plan.members.push_back({.worker = id,
                            .former_rank = worker.rank,
                            .local_rank = worker.slot.local_rank,
                            .commit = arrival.commit,
                            .process = arrival.process,
                            .host = worker.slot.host,
                            .process_sets = arrival.process_sets});
    opened.visits.push_back(arrival.visit);
  }
  for (const int holder : plan.holders()) {
    const Worker& worker = workers_.at(members[static_cast<std::size_t>(holder)]);
    opened.repeated_steps = std::max(opened.repeated_steps, worker.waits->repeated_steps);
  }
  if (const std::string why = crash_loops_.reason_against(plan); !why.empty()) return end(true, why);
  if (limits_.reset_limit && plan_.epoch > static_cast<std::uint64_t>(*limits_.reset_limit))
    return end(true,
               fmt::format("--reset-limit {} allows no further change of the ranks", *limits_.reset_limit));
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    Worker& worker = workers_.at(members[rank]);
    worker.waits.reset();
    worker.rank = static_cast<int>(rank);
  }
  plan_ = plan;
  is_announced_ = false;
  waits_since_.reset();
  actions_.emplace_back(std::move(opened));
  announce();
}

/// Announces a change of which the members know nothing yet: a newcomer for whom there is room, or a host
/// that is no longer listed.
void Membership::announce() {
  if (is_announced_ || is_finishing_) return;
  const std::vector<WorkerId> newcomers = waiting_newcomers();
  const bool is_room = live_members() < limits_.max_np;
  std::string why;
  if (can_anybody_leave()) {
    why = "a host is no longer listed";
  } else if (is_room && !newcomers.empty()) {
    why = fmt::format("{} on {} joins", counted(newcomers.size(), "process"),
                      workers_.at(newcomers.front()).slot.host);
  } else {
    return;
  }
  is_announced_ = true;
  actions_.emplace_back(Announce{++change_, std::move(why)});
}

void Membership::check_end() {
  if (plan_.epoch == 0) {
    const bool waits_in_vain =
        is_finishing_ && std::ranges::any_of(workers_, [](const auto& each) { return !!each.second.waits; });
    if (waits_in_vain) return end(true, "a process ended with status 0 before init, and others wait for it");
    // A program that fails everywhere before init, as for a missing module, is not started again and again.
    const bool is_hopeless =
        crash_loops_.early_failures() >= limits_.first_np &&
        std::ranges::none_of(workers_, [](const auto& each) { return !!each.second.waits; });
    if (next_worker_ == 0 || (!workers_.empty() && !is_hopeless)) return;
    if (crash_loops_.last_failure().empty()) return end(false, "");
    return end(true, "no process has come as far as init; the last failure: " + crash_loops_.last_failure());
  }
  if (live_members() > 0) return;
  if (lost_.empty()) return end(false, "");
  end(true, fmt::format("{}: {}", is_finishing_ ? "the last epoch lost a rank" : "no rank is left",
                        lost_.back().why));
}

void Membership::end(bool is_failure, std::string why) {
  is_over_ = true;
  actions_.emplace_back(End{is_failure, std::move(why)});
}

std::string Membership::summary(TimePoint now) const {
  MembersSummary summary{.members = live_members(), .left_out = cooldowns_.texts(now)};
  for (const auto& [id, worker] : workers_) {
    const std::string slot = fmt::format("{}:{}", worker.slot.host, worker.slot.local_rank);
    if (worker.rank >= 0 && worker.waits) ++summary.between_epochs;
    if (worker.rank >= 0 && worker.is_leaving) summary.leaving.push_back(slot);
    if (worker.rank < 0 && !worker.has_left)
      (worker.waits ? summary.waiting : summary.starting).push_back(slot);
  }
  return text_of(summary);
}

void Membership::tick(TimePoint now) { look(now); }

TimePoint Membership::deadline() const {
  if (is_over_) return kNever;
  TimePoint next = cooldowns_.first_end_after(looked_at_);
  if (waits_since_ && *waits_since_ + limits_.wait_limit > looked_at_)
    next = std::min(next, *waits_since_ + limits_.wait_limit);
  return next;
}

}  // namespace dabke::launcher
