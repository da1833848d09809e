#include "launcher/job/agents/job_agents.h"

#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "launcher/job/agents/store_connection.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kSupervisorPause = 20ms;
/// The time for the programs that start agents to end when the job is refused: a user who has typed Ctrl-C
/// waits for it.
constexpr auto kRefusalTime = 1s;

}  // namespace

JobAgents::JobAgents(AgentStarter starter, Settings settings, JobLog& log, JobRanks& ranks,
                     AgentReports& reports)
    : settings_(std::move(settings)),
      log_(log),
      ranks_(ranks),
      reports_(reports),
      starter_(std::move(starter)) {}

AgentLink& JobAgents::add(std::string host, PrepareMessage prepare) {
  agents_.push_back(std::make_unique<AgentLink>(std::move(host), std::move(prepare),
                                                seconds_to_duration(settings_.start_timeout_s)));
  return *agents_.back();
}

void JobAgents::start() {
  if (refused_with_) return;
  is_started_ = settings_.is_elastic;
  while (const auto failure = starter_.start(agents_)) {
    if (settings_.is_elastic && failure->link != nullptr) {
      give_up(*failure->link, {failure->why});
      continue;
    }
    log_.log(failure->why);
    return refuse(1);
  }
}

/// In an elastic job: the agent cannot take ranks.
void JobAgents::give_up(AgentLink& agent, const std::vector<std::string>& lines) {
  agent.phase = AgentLink::Phase::lost;
  agent.close();
  reports_.agent_lost(agent, lines, false);
}

void JobAgents::refuse(int exit_code) {
  refused_with_ = exit_code;
  starter_.give_up();
  for (const auto& agent : agents_) {
    if (agent->phase == AgentLink::Phase::arriving) agent->kill_process();
    agent->hang_up();
  }
  const TimePoint limit = Clock::now() + kRefusalTime;
  for (const auto& agent : agents_) agent->close(limit);
  for (const JobRank& rank : ranks_.all()) reports_.rank_over(*rank.agent, rank.rank());
}

TimePoint JobAgents::deadline() const {
  TimePoint next = look_for_supervisors_at_.value_or(kNever);
  for (const auto& agent : agents_) next = std::min(next, agent->deadline());
  return next;
}

void JobAgents::add_poll_entries(std::vector<pollfd>& entries) const {
  starter_.add_poll_entries(entries);
  for (const auto& agent : agents_) agent->add_poll_entries(entries);
}

void JobAgents::handle(const std::vector<pollfd>& entries) {
  take_arrivals(entries);
  for (const auto& agent : agents_) {
    bool is_there = true;
    for (const pollfd& entry : entries) is_there = agent->handle(entry) && is_there;
    take_frames(*agent);
    if (!is_there && agent->is_open()) lose(*agent, "");
  }
  order_when_greeted();
}

void JobAgents::tick() {
  for (const auto& agent : agents_) {
    if (agent->is_late())
      lose(*agent, fmt::format("not ready after {:g} s (--start-timeout)", settings_.start_timeout_s));
    if (!agent->keep_beating())
      lose(*agent,
           fmt::format("nothing received for {:g} s (DABKE_PEER_TIMEOUT_SECONDS)", agent->silence_limit_s()));
  }
  if (!is_started_ || settings_.is_elastic) start();
  if (look_for_supervisors_at_ && Clock::now() >= *look_for_supervisors_at_) await_lost_supervisors();
}

void JobAgents::command(std::int32_t command) {
  for (const auto& agent : agents_) {
    if (agent->phase == AgentLink::Phase::running) agent->send(FrameKind::command, CommandMessage{command});
  }
}

std::set<const AgentLink*> JobAgents::ask_for_states() {
  std::set<const AgentLink*> asked;
  for (const auto& agent : agents_) {
    if (agent->phase != AgentLink::Phase::running) continue;
    asked.insert(agent.get());
    agent->send(FrameKind::look);
  }
  return asked;
}

void JobAgents::hold(bool is_error_output, bool is_held) {
  for (const auto& agent : agents_) agent->hold(is_error_output, is_held);
}

void JobAgents::pause() {
  for (const auto& agent : agents_) agent->send(FrameKind::pause);
}

void JobAgents::forgive_silence() {
  for (const auto& agent : agents_) agent->forgive_silence();
}

void JobAgents::kill() {
  for (const auto& agent : agents_) agent->kill_process();
}

void JobAgents::take_frames(AgentLink& agent) {
  if (agent.phase == AgentLink::Phase::arriving) return;
  while (agent.is_open()) {
    const auto frame = agent.next();
    if (!frame) return;
    take_frame(agent, *frame);
  }
}

void JobAgents::take_frame(AgentLink& agent, const FrameChannel::Frame& frame) {
  if (deliver_report(agent, frame, reports_)) return;
  const std::string_view content = frame.content;
  switch (static_cast<FrameKind>(frame.kind)) {
    case FrameKind::ready: return take_ready(agent);
    case FrameKind::failed:
      return take_as<FailedMessage>(content, [&](const auto& failed) { take_failure(agent, failed); });
    case FrameKind::log: return take_as<TextMessage>(content, [&](const auto& text) { log_.log(text.text); });
    case FrameKind::clock:
      return take_as<ClockMessage>(content, [&](const auto& clock) { agent.take_clock(clock); });
    case FrameKind::store_open:
      return take_as<StoreMessage>(
          content, [&](const auto& store) { open_store_connection(agent, store.connection); });
    case FrameKind::store_bytes:
      return take_as<StoreMessage>(
          content, [&](const auto& store) { agent.connections().take_bytes(store.connection, store.bytes); });
    case FrameKind::store_close:
      return take_as<StoreMessage>(
          content, [&](const auto& store) { agent.connections().take_close(store.connection); });
    default: return;  // the launcher expects no other frame
  }
}

/// Before the start, the host cannot run the job. After it, a rank could not be started.
void JobAgents::take_failure(AgentLink& agent, const FailedMessage& failed) {
  const std::string why =
      agent.is_local() ? failed.why : fmt::format("host {}: {}", agent.host(), failed.why);
  if (settings_.is_elastic) return give_up(agent, {why});
  log_.log(why);
  refused_with_ = refused_with_.value_or(failed.exit_code);
  if (is_started_) return reports_.start_failed(agent);
  agent.phase = AgentLink::Phase::lost;
  go_when_ready();
}

void JobAgents::open_store_connection(AgentLink& agent, std::int64_t connection) {
  Fd socket = connect_to_store(settings_.store);
  if (!socket) return agent.send(FrameKind::store_close, StoreMessage{connection, {}});
  agent.connections().add(connection, std::move(socket));
}

void JobAgents::take_arrivals(const std::vector<pollfd>& entries) {
  const auto lines = starter_.take_arrivals(agents_, entries);
  if (lines.empty() || refused_with_) return;
  for (const std::string& line : lines) log_.log(line);
  if (!settings_.is_elastic) return refuse(1);
  for (const auto& agent : agents_) {
    if (agent->phase == AgentLink::Phase::arriving && !agent->is_local()) give_up(*agent, {});
  }
}

void JobAgents::take_ready(AgentLink& agent) {
  agent.phase = AgentLink::Phase::ready;
  if (!settings_.is_elastic) return go_when_ready();
  agent.phase = AgentLink::Phase::running;
  agent.send(FrameKind::go);
  reports_.agent_ready(agent);
}

/// Sends the orders once the machine of every host is known, because the placement of ranks depends on it.
void JobAgents::order_when_greeted() {
  const auto has_greeted = [](const auto& agent) { return agent->phase == AgentLink::Phase::greeted; };
  if (settings_.is_elastic) {
    for (const auto& agent : agents_) {
      if (has_greeted(agent)) agent->send_order();
    }
    return;
  }
  if (is_started_ || std::ranges::none_of(agents_, has_greeted) ||
      !std::ranges::all_of(agents_, [&](const auto& agent) {
        return has_greeted(agent) || agent->phase == AgentLink::Phase::lost ||
               (agent->phase == AgentLink::Phase::queued && refused_with_);
      }))
    return;
  if (refused_with_) return refuse(*refused_with_);
  merge_machines();
  for (const auto& agent : agents_) agent->send_order();
}

/// Merges the hosts that are one machine. Each agent still runs the ranks that were assigned to it. Agents
/// under other names of the machine run their ranks beside them.
void JobAgents::merge_machines() {
  std::map<std::string, std::vector<std::string>> names_of;  // by machine
  for (const auto& agent : agents_) {
    if (!agent->machine().empty()) names_of[agent->machine()].push_back(agent->host());
  }
  std::map<std::string, std::string> names;
  for (const auto& [machine, all] : names_of) {
    if (all.size() == 1) continue;
    log_.log(one_machine_notice(all));
    for (const std::string& name : all) names[name] = all.front();
  }
  if (names.empty()) return;
  const auto placements = with_hosts_merged(ranks_.placements(), names);
  ranks_.place(placements);
  for (const auto& agent : agents_) {
    for (RankOrder& order : agent->order().ranks)
      order.placement = *std::ranges::find(placements, order.placement.rank, &RankPlacement::rank);
  }
}

/// Starts the ranks once every host is ready, or is known not to be.
void JobAgents::go_when_ready() {
  if (is_started_ || std::ranges::any_of(agents_, [this](const auto& agent) {
        return agent->is_under_way() || agent->phase == AgentLink::Phase::greeted ||
               (agent->phase == AgentLink::Phase::queued && !refused_with_);
      }))
    return;
  if (refused_with_) return refuse(*refused_with_);
  is_started_ = true;
  for (const auto& agent : agents_) agent->phase = AgentLink::Phase::running;
  reports_.all_ready();
  for (const auto& agent : agents_) agent->send(FrameKind::go);
}

/// `why` is the reason, if it is known. The loss of an agent whose ranks are all over is ignored.
void JobAgents::lose(AgentLink& agent, const std::string& why) {
  if (is_started_ && !settings_.is_elastic && !ranks_.are_any_left(agent)) return agent.close();
  const bool had_arrived = agent.phase != AgentLink::Phase::arriving;
  agent.phase = AgentLink::Phase::lost;
  if (!why.empty() || (had_arrived && starter_.ends_late(agent))) agent.kill_process();
  agent.close();
  const std::vector<std::string> lines = starter_.loss(agent, had_arrived, why);
  if (is_started_) {
    reports_.agent_lost(agent, lines, starter_.lost_srun());
    if (agent.is_local()) await_lost_supervisors();
    return;
  }
  for (const std::string& line : lines) log_.log(line);
  refused_with_ = refused_with_.value_or(1);
  order_when_greeted();
  go_when_ready();
}

/// The supervisors of a killed agent end their ranks. The supervisors are now our child processes.
void JobAgents::await_lost_supervisors() {
  look_for_supervisors_at_.reset();
  for (const JobRank& rank : ranks_.all()) {
    if (rank.is_over || rank.agent->phase != AgentLink::Phase::lost) continue;
    if (rank.supervisor == 0 || ::waitpid(rank.supervisor, nullptr, WNOHANG) != 0) {
      reports_.rank_over(*rank.agent, rank.rank());
    } else {
      look_for_supervisors_at_ = Clock::now() + kSupervisorPause;
    }
  }
}

}  // namespace dabke::launcher
