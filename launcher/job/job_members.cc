#include "launcher/job/job_members.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <utility>
#include <variant>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/base/text/counted.h"

namespace dabke::launcher {
namespace {

using bootstrap::EpochPlan;
using bootstrap::LostMember;

template <class... F>
struct Cases : F... {
  using F::operator()...;
};
template <class... F>  // clang before 17 deduces nothing from an aggregate
Cases(F...)->Cases<F...>;

/// "12:00:01.3", in local time.
std::string time_of_day() {
  using std::chrono::milliseconds;
  const auto wall = std::chrono::system_clock::now();
  const auto since = std::chrono::duration_cast<milliseconds>(wall.time_since_epoch()).count();
  const std::time_t seconds = since / 1000;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return fmt::format("{:%H:%M:%S}.{}", parts, since % 1000 / 100);
}

}  // namespace

JobMembers::JobMembers(Settings settings, Meetings& meetings, AgentLink& local, Job job)
    : settings_(std::move(settings)), meetings_(meetings), job_(job), membership_(settings_.limits) {
  agents_[local.host()] = &local;
  if (settings_.discovery) discovery_.emplace(*settings_.discovery);
}

void JobMembers::begin(TimePoint now) {
  hosts_ = settings_.hosts;
  use_hosts(now);  // without any, the membership begins to wait for them
  act(now);
}

bool JobMembers::is_over() const {
  return is_ended_ || job_.ending.is_under_way() || job_.agents.refused_with();
}

Outcome JobMembers::conclude() const { return outcome_; }

int JobMembers::rank_of(int worker) const {
  const auto found = std::ranges::find(plan_.members, worker, &bootstrap::EpochMember::worker);
  return found == plan_.members.end() ? -1 : static_cast<int>(found - plan_.members.begin());
}

std::string JobMembers::summary(TimePoint now) const {
  return fmt::format("epoch {}: {}", plan_.epoch, membership_.summary(now));
}

JobRanks JobMembers::current_ranks() const {
  JobRanks ranks;
  for (std::size_t rank = 0; rank < plan_.members.size(); ++rank) {
    const auto worker = std::ranges::find(job_.ranks.all(), plan_.members[rank].worker, &JobRank::rank);
    if (worker == job_.ranks.all().end()) continue;
    JobRank member = *worker;
    member.placement.rank = member.state.rank = static_cast<int>(rank);
    ranks.add(std::move(member));
  }
  return ranks;
}

bool JobMembers::is_here(const std::string& host) const {
  return host == settings_.here || host == "localhost" || host == this_host_name();
}

/// The name that the host's agent has for it. The host may be listed under another name.
const std::string& JobMembers::agent_name_of(const std::string& host) const {
  return is_here(host) ? settings_.here : host;
}

/// False for a host where srun cannot start an agent. The first time, logs the reason.
bool JobMembers::is_in_reach(const std::string& host) {
  if (settings_.slurm_job.empty() || is_here(host) ||
      std::ranges::find(settings_.slurm_hosts, host) != settings_.slurm_hosts.end())
    return true;
  if (out_of_reach_.insert(host).second)
    job_.log.log(
        fmt::format("host {} does not belong to {}, so srun cannot start ranks there: list hosts of "
                    "that job, or use --launcher ssh",
                    host, settings_.slurm_job));
  return false;
}

/// The agent of the host. If there is none, or it was lost, a new one, which is started next.
AgentLink& JobMembers::agent_of(const std::string& host) {
  const std::string& name = agent_name_of(host);
  AgentLink*& agent = agents_[name];
  if (agent == nullptr || agent->phase >= AgentLink::Phase::lost)
    agent = &job_.agents.add(name, settings_.order_elsewhere);
  return *agent;
}

void JobMembers::agent_ready(const AgentLink& agent) {
  if (is_over()) return;
  for (const JobRank& worker : job_.ranks.all()) {
    if (worker.agent == &agent && !worker.has_ended) send_order(worker);
  }
}

void JobMembers::agent_lost(const AgentLink& agent, TimePoint now) {
  if (is_over()) return;
  bool is_listed = false;
  for (const Host& host : hosts_) {
    if (agent_name_of(host.name) != agent.host()) continue;
    is_listed = true;
    membership_.take_host_loss(host.name, now);
  }
  if (!is_listed) membership_.take_host_loss(agent.host(), now);
}

void JobMembers::host_leaves(const AgentLink& agent, TimePoint now) {
  if (is_over() || !leaving_.insert(agent.host()).second) return;
  job_.log.log(fmt::format("host {} received SIGTERM: its ranks leave at their next commit", agent.host()));
  use_hosts(now);
}

/// Passes the hosts on, without those that leave or cannot be reached. A host that has left is back when the
/// script has dropped it and lists it again.
void JobMembers::use_hosts(TimePoint now) {
  std::erase_if(leaving_, [&](const std::string& name) {
    return std::ranges::none_of(hosts_, [&](const Host& host) { return agent_name_of(host.name) == name; });
  });
  std::vector<Host> used;
  for (const Host& host : hosts_) {
    if (!leaving_.contains(agent_name_of(host.name)) && is_in_reach(host.name)) used.push_back(host);
  }
  membership_.set_hosts(std::move(used), now);
}

void JobMembers::take_end(const JobRank& worker, const RankEnd& end, TimePoint now) {
  const int number = worker.rank(), rank = rank_of(number);
  if (rank >= 0) {
    meetings_.publish_end(
        number, {rank, static_cast<int>(plan_.members.size()), end.pid, exit_code_of(end), end.host},
        settings_.set);
  }
  if (is_failure(end) && (rank >= 0 || !last_failure_)) last_failure_ = end;
  if (is_over()) return;
  std::string failure = is_failure(end) ? describe(end) : "";
  if (const auto reason = kill_reasons_.find(number); reason != kill_reasons_.end()) failure = reason->second;
  if (rank >= 0 && !failure.empty()) {
    losses_.add(
        rank, now,
        fmt::format("rank {} (host {}) {} at {}", rank, worker.placement.host, failure, time_of_day()));
    meetings_.publish_loss(plan_.epoch, fmt::format("rank {} on {} {}", rank, worker.placement.host, failure),
                           settings_.set);
  }
  if (rank < 0 && !failure.empty())
    job_.log.log(fmt::format("a process on host {} (pid {}) {}, before it had a rank", worker.placement.host,
                             end.pid, failure));
  membership_.take_end(number, failure, now);
}

TimePoint JobMembers::deadline() const {
  if (is_over()) return kNever;
  return std::min(membership_.deadline(), discovery_ ? discovery_->deadline() : kNever);
}

void JobMembers::add_poll_entries(std::vector<pollfd>& entries) const {
  entries.push_back({meetings_.event(), POLLIN, 0});
  if (discovery_) discovery_->add_poll_entries(entries);
}

void JobMembers::handle(const std::vector<pollfd>& entries, TimePoint now) {
  const auto arrivals = meetings_.take_arrivals();
  if (is_over()) return;
  for (const bootstrap::Arrival& arrival : arrivals) {
    if (arrival.epoch == 0) watch(arrival);
    membership_.take_arrival(arrival, now);
  }
  if (discovery_) {
    for (const pollfd& entry : entries) discovery_->handle(entry);
  }
}

void JobMembers::tick(TimePoint now) {
  if (is_over()) return;
  if (discovery_) {
    discovery_->tick(now);
    if (const std::string trouble = discovery_->take_trouble(); !trouble.empty()) job_.log.log(trouble);
    if (auto hosts = discovery_->take_hosts()) {
      hosts_ = std::move(*hosts);
      if (settings_.verbose)
        job_.log.log(fmt::format("--host-discovery-script: {}", counted(hosts_.size(), "host")));
      use_hosts(now);
    }
  }
  if (now >= membership_.deadline()) membership_.tick(now);
  act(now);
}

void JobMembers::act(TimePoint now) {
  for (const Membership::Action& action : membership_.take_actions()) {
    meetings_.publish(action, settings_.set);
    std::visit(Cases{[&](const Membership::Start& each) { start(each); },
                     [&](const Membership::Kill& each) { kill(each); },
                     [&](const Membership::Open& each) { open(each, now); },
                     [&](const Membership::Announce& each) {
                       if (settings_.verbose) job_.log.log("a change is announced: " + each.why);
                     },
                     [&](const Membership::Refuse& each) { refuse(each); },
                     [&](const Membership::End& each) { end(each, now); }},
               action);
  }
}

void JobMembers::start(const Membership::Start& start) {
  const Slot& slot = start.slot;
  AgentLink& agent = agent_of(slot.host);
  const std::string name = fmt::format("{}:{}", slot.host, slot.local_rank);
  RankOutputs outputs;
  if (!settings_.output_directory.empty()) {
    const std::string folder = fmt::format("{}.{}", slot.host, slot.local_rank);
    auto output = open_slot_file(settings_.output_directory, folder, "stdout");
    auto error_output = open_slot_file(settings_.output_directory, folder, "stderr");
    if (!output.is_ok()) job_.log.log(output.status().message());
    if (output.is_ok() && error_output.is_ok()) {
      outputs.output_file = output.take();
      outputs.error_file = error_output.take();
    }
  }
  const auto host = std::ranges::find(hosts_, slot.host, &Host::name);
  job_.ranks.add({.rank = start.worker,
                  .size = 0,
                  .local_rank = slot.local_rank,
                  .local_size = host == hosts_.end() ? slot.local_rank + 1 : host->slots,
                  .cross_rank = 0,
                  .cross_size = 0,
                  .host = slot.host},
                 &agent);
  job_.output.add(start.worker, std::move(outputs), settings_.style);
  job_.output.rename(start.worker, name, fmt::format("dabkerun: a process starts in slot {}", name));
  if (agent.phase == AgentLink::Phase::running) send_order(job_.ranks.all().back());
}

void JobMembers::send_order(const JobRank& worker) {
  worker.agent->send(FrameKind::start_rank, RankOrder{worker.placement, {}});
}

void JobMembers::kill(const Membership::Kill& kill) {
  const auto worker = std::ranges::find(job_.ranks.all(), kill.worker, &JobRank::rank);
  if (worker == job_.ranks.all().end()) return;
  kill_reasons_[kill.worker] = kill.why;
  worker->agent->send(FrameKind::end_rank, RankMessage{kill.worker});
}

/// Names the process of the rank to its agent: the program that the agent has started may be a shell.
void JobMembers::watch(const bootstrap::Arrival& arrival) const {
  const auto worker = std::ranges::find(job_.ranks.all(), arrival.worker, &JobRank::rank);
  if (worker == job_.ranks.all().end() || worker->has_ended) return;
  worker->agent->send(FrameKind::watch_rank, WatchMessage{arrival.worker, to_text(arrival.process)});
}

void JobMembers::open(const Membership::Open& opened, TimePoint now) {
  const EpochPlan& plan = opened.plan;
  if (plan.epoch > 1 || settings_.verbose) log_change(opened, now);
  plan_ = plan;
  losses_.begin_epoch();
  for (std::size_t rank = 0; rank < plan.members.size(); ++rank) {
    job_.output.rename(
        plan.members[rank].worker, std::to_string(rank),
        fmt::format("dabkerun: rank {} of {} in epoch {}", rank, plan.members.size(), plan.epoch));
  }
}

std::string JobMembers::describe_loss(const LostMember& lost) const {
  const std::string noted = losses_.text_of(lost.rank);
  return noted.empty() ? fmt::format("rank {} (host {}) {}", lost.rank, lost.host, lost.why) : noted;
}

/// "epoch 7: rank 3 (host b) was killed by SIGKILL (signal 9) at 12:00:01.3; 3 of 4 go on after 41 ms; 1 step
/// is repeated"
void JobMembers::log_change(const Membership::Open& opened, TimePoint now) {
  const EpochPlan& plan = opened.plan;
  std::vector<std::string> parts;
  for (const LostMember& lost : plan.lost) parts.push_back(describe_loss(lost));
  std::vector<std::string> newcomers;
  for (std::size_t rank = 0; rank < plan.members.size(); ++rank) {
    if (plan.members[rank].former_rank < 0)
      newcomers.push_back(fmt::format("{} (host {})", rank, plan.members[rank].host));
  }
  if (!newcomers.empty()) {
    parts.push_back(fmt::format("{} {} {}", newcomers.size() == 1 ? "rank" : "ranks",
                                fmt::join(newcomers, ", "), newcomers.size() == 1 ? "joins" : "join"));
  }
  const auto staying = plan.members.size() - newcomers.size();
  if (staying > 0) parts.push_back(fmt::format("{} of {} go on", staying, plan_.members.size()));
  if (const auto lost_at = losses_.first_time()) {
    const double ms = std::chrono::duration<double, std::milli>(now - *lost_at).count();
    parts.back() += fmt::format(" after {:.0f} ms", ms);
  }
  if (opened.repeated_steps > 0)
    parts.push_back(fmt::format("{} {} repeated", counted(opened.repeated_steps, "step"),
                                opened.repeated_steps == 1 ? "is" : "are"));
  job_.log.log(fmt::format("epoch {}: {}", plan.epoch, fmt::join(parts, "; ")));
}

void JobMembers::refuse(const Membership::Refuse& refused) {
  const int rank = rank_of(refused.worker);
  const std::string who =
      rank >= 0 ? fmt::format("rank {} (host {})", rank, plan_.members[static_cast<std::size_t>(rank)].host)
                : fmt::format("process {}", refused.worker);
  job_.log.log(refused.is_failure ? fmt::format("{}: {}", who, refused.why)
                                  : fmt::format("{} leaves: {}", who, refused.why));
}

void JobMembers::take_failure(const std::string& why) {
  outcome_.exit_code = last_failure_ ? std::max(exit_code_of(*last_failure_), 1) : 1;
  if (last_failure_) outcome_.first_failed_rank = last_failure_->rank;
  if (discovery_ && !discovery_->trouble().empty()) outcome_.lines.push_back(discovery_->trouble());
  outcome_.lines.push_back(fmt::format("the job failed{}: {}",
                                       plan_.epoch > 0 ? fmt::format(" in epoch {}", plan_.epoch) : "", why));
}

/// The last lines: what was lost when, and the reason for the end.
void JobMembers::end(const Membership::End& end, TimePoint now) {
  is_ended_ = true;
  if (plan_.epoch > 1)
    outcome_.lines.push_back(
        fmt::format("the job had {}, and lost {}", counted(plan_.epoch, "epoch"),
                    losses_.count() == 0 ? "no rank" : counted(losses_.count(), "rank")));
  for (std::string& line : losses_.lines()) outcome_.lines.push_back(std::move(line));
  if (end.is_failure) take_failure(end.why);
  if (job_.ranks.are_any_left()) job_.ending.end(Command::kEnd, now);
}

}  // namespace dabke::launcher
