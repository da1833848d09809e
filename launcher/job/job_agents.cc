// What the agents of a job say, and what becomes of those that say nothing more.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/job/job.h"

namespace dabke {
namespace {

using namespace std::chrono_literals;

constexpr auto kSupervisorPause = 20ms;
/// For what has brought agents to a job that does not begin: whoever has typed Ctrl-C waits for it.
constexpr auto kRefusalTime = 1s;

/// A connection to the store of this process, "http://127.0.0.1:port".
Fd connect_to_store(const std::string& url) {
  const auto colon = url.rfind(':');
  std::uint16_t port = 0;
  std::from_chars(url.data() + colon + 1, url.data() + url.size(), port);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // What is not there yet when this returns is there when there is something to write.
  if (socket) (void)::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return socket;
}

}  // namespace

void Job::take_frames(AgentLink& agent) {
  if (agent.phase == AgentLink::Phase::arriving) return;
  while (agent.is_open()) {
    const auto frame = agent.next();
    if (!frame) return;
    take_frame(agent, *frame);
  }
}

void Job::take_frame(AgentLink& agent, const FrameChannel::Frame& frame) {
  const std::string_view content = frame.content;
  StartedMessage started;
  EndedMessage ended;
  RankMessage rank;
  FailedMessage failed;
  StatesMessage states;
  SignalledMessage signalled;
  OutputMessage output;
  TextMessage text;
  ClockMessage clock;
  StoreMessage store;
  const auto kind = static_cast<FrameKind>(frame.kind);
  switch (kind) {
    case FrameKind::ready: agent.phase = AgentLink::Phase::ready; return start_when_ready();
    case FrameKind::failed:
      if (from_wire(content, failed)) take_message(agent, failed);
      return;
    case FrameKind::started:
      if (from_wire(content, started)) take_message(agent, started);
      return;
    case FrameKind::ended:
      if (from_wire(content, ended)) take_message(agent, ended);
      return;
    case FrameKind::over:
      if (from_wire(content, rank)) {
        if (Member* member = member_of(agent, rank.rank)) member_over(*member);
      }
      return;
    case FrameKind::says:
      if (from_wire(content, text)) say(text.text);
      return;
    case FrameKind::states:
      if (from_wire(content, states)) take_message(agent, states);
      return;
    case FrameKind::signalled:
      if (from_wire(content, signalled)) take_message(agent, signalled);
      return;
    case FrameKind::output:
    case FrameKind::output_end:
      if (from_wire(content, output)) take_message(agent, output, kind == FrameKind::output_end);
      return;
    case FrameKind::input_taken:
      if (input_carrier_) input_carrier_->taken();
      return;
    case FrameKind::clock:
      if (from_wire(content, clock)) agent.take_clock(clock);
      return;
    case FrameKind::store_open:
      if (from_wire(content, store)) open_store_connection(agent, store.connection);
      return;
    case FrameKind::store_bytes:
      if (from_wire(content, store)) agent.connections().take_bytes(store.connection, store.bytes);
      return;
    case FrameKind::store_close:
      if (from_wire(content, store)) agent.connections().take_close(store.connection);
      return;
    default: return;  // none that a launcher is sent
  }
}

void Job::take_message(AgentLink& agent, const StartedMessage& started) {
  Member* member = member_of(agent, started.rank);
  if (member == nullptr) return;
  member->pid = started.pid;
  member->supervisor = started.supervisor;
  if (settings_.verbose)
    say(fmt::format("rank {} runs on host {} as pid {}", started.rank, agent.host(), started.pid));
}

void Job::take_message(AgentLink& agent, const EndedMessage& ended) {
  Member* member = member_of(agent, ended.rank);
  if (member == nullptr || member->end) return;
  RankEnd end{.time_ns = agent.in_our_time(ended.time_ns), .our_signal = ended.our_signal};
  switch (ended.how) {
    case EndedMessage::How::exited: set_wait_status(end, ended.value); break;
    case EndedMessage::How::not_started:
      end.kind = RankEnd::Kind::not_started;
      end.value = ended.value;
      break;
    case EndedMessage::How::supervisor_lost: end.kind = RankEnd::Kind::supervisor_lost; break;
  }
  member_ended(*member, std::move(end));
}

/// Before the start it is the host that cannot run the job; after it, a rank that could not be started.
void Job::take_message(AgentLink& agent, const FailedMessage& failed) {
  say(agent.is_local() ? failed.why : fmt::format("host {}: {}", agent.host(), failed.why));
  if (!is_started_) {
    agent.phase = AgentLink::Phase::lost;
    refused_with_ = refused_with_.value_or(failed.exit_code);
    return start_when_ready();
  }
  announced_ = true;
  refused_with_ = refused_with_.value_or(failed.exit_code);
  // Those that were never started are over.
  for (Member& member : members_) {
    if (member.agent == &agent && member.pid == 0) member_over(member);
  }
  end_all(Command::kEnd);
}

void Job::take_message(AgentLink& agent, const OutputMessage& output, bool is_end) {
  Member* member = member_of(agent, output.rank);
  if (member == nullptr) return;
  WorkerOutput& stream = output.is_error_output ? member->error_output : member->output;
  if (!stream.is_open()) return;
  if (is_end) {
    stream.close(console_);
  } else {
    stream.take(console_, output.bytes);
  }
}

void Job::take_message(AgentLink& agent, const StatesMessage& states) {
  for (const RankState& state : states.ranks) states_[state.rank] = state;
  if (survey_) survey_->awaited.erase(&agent);
}

/// A batch system has signalled what runs on that host.
void Job::take_message(AgentLink& agent, const SignalledMessage& signalled) {
  SignalSender sender = signalled.sender;
  if (!agent.is_local()) sender.name += fmt::format(" on host {}", agent.host());
  take(signalled.signal, &agent, sender);
}

void Job::open_store_connection(AgentLink& agent, std::int64_t connection) {
  Fd socket = connect_to_store(settings_.store);
  if (!socket) return agent.tell(FrameKind::store_close, StoreMessage{connection, {}});
  agent.connections().add(connection, std::move(socket));
}

void Job::start_agents() {
  if (refused_with_) return;
  if (const Status started = starter_.start(agents_); !started.is_ok()) {
    say(started.message());
    refuse(1);
  }
}

void Job::take_dialled_agents(const std::vector<pollfd>& entries) {
  const auto lines = starter_.take_arrivals(agents_, entries);
  if (lines.empty() || refused_with_) return;
  for (const std::string& line : lines) say(line);
  refuse(1);
}

/// Where a rank is to run is clear when it is known of every host which machine it is.
void Job::order_when_greeted() {
  const auto has_greeted = [](const auto& agent) { return agent->phase == AgentLink::Phase::greeted; };
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

/// Each agent goes on running the ranks that it was to run; that of another name of its machine runs others beside it.
void Job::merge_machines() {
  std::map<std::string, std::vector<std::string>> names_of;  // by machine
  for (const auto& agent : agents_) {
    if (!agent->machine().empty()) names_of[agent->machine()].push_back(agent->host());
  }
  std::map<std::string, std::string> names;
  for (const auto& [machine, all] : names_of) {
    if (all.size() == 1) continue;
    say(one_machine_notice(all));
    for (const std::string& name : all) names[name] = all.front();
  }
  if (names.empty()) return;
  std::vector<RankPlacement> placements;
  for (const Member& member : members_) placements.push_back(member.placement);
  placements = with_hosts_merged(std::move(placements), names);
  for (std::size_t i = 0; i < members_.size(); ++i) members_[i].placement = placements[i];
  for (const auto& agent : agents_) {
    for (RankOrder& order : agent->order().ranks) {
      const auto same = std::ranges::find(placements, order.placement.rank, &RankPlacement::rank);
      order.placement = *same;
    }
  }
}

/// Every host can run its part, or is known not to.
void Job::start_when_ready() {
  if (is_started_ || std::ranges::any_of(agents_, [this](const auto& agent) {
        return agent->is_under_way() || agent->phase == AgentLink::Phase::greeted ||
               (agent->phase == AgentLink::Phase::queued && !refused_with_);
      }))
    return;
  if (refused_with_) return refuse(*refused_with_);
  is_started_ = true;
  for (const auto& agent : agents_) agent->phase = AgentLink::Phase::running;
  resize_terminals();
  for (const auto& agent : agents_) agent->tell(FrameKind::go);
}

/// Those of ranks become as large as that of this process, less what goes before their lines.
void Job::resize_terminals() {
  if (!settings_.gives_terminals) return;
  const TerminalSize whole = terminal_size(STDOUT_FILENO);
  for (const Member& member : members_) {
    const TerminalSize size = member.output.room_in(whole);
    if (member.agent->is_local()) {
      resize(member.output.pipe(), size);
    } else if (member.agent->phase == AgentLink::Phase::running) {
      member.agent->tell(FrameKind::window,
                         WindowMessage{member.placement.rank, static_cast<std::int32_t>(size.rows),
                                       static_cast<std::int32_t>(size.columns)});
    }
  }
}

/// Nothing has been started, and nothing will be.
void Job::refuse(int exit_code) {
  refused_with_ = exit_code;
  starter_.give_up();
  for (const auto& agent : agents_) {
    if (agent->phase == AgentLink::Phase::arriving) agent->kill_process();
    agent->hang_up();
  }
  const TimePoint limit = Clock::now() + kRefusalTime;
  for (const auto& agent : agents_) agent->close(limit);
  for (Member& member : members_) member_over(member);
}

void Job::agent_lost(AgentLink& agent, const std::string& why) {
  const bool is_needed = !is_started_ || std::ranges::any_of(members_, [&](const Member& member) {
    return member.agent == &agent && !member.is_over;
  });
  if (!is_needed) return agent.close();
  const bool had_arrived = agent.phase != AgentLink::Phase::arriving;
  agent.phase = AgentLink::Phase::lost;
  if (!why.empty()) agent.kill_process();
  agent.close();
  if (survey_) survey_->awaited.erase(&agent);
  if (!told_to_end_ || !is_started_) {
    for (const std::string& line : starter_.loss(agent, had_arrived, why)) say(line);
  }
  if (!is_started_) {
    refused_with_ = refused_with_.value_or(1);
    order_when_greeted();
    return start_when_ready();
  }
  if (starter_.lost_srun()) blame_srun(agent);
  for (Member& member : members_) {
    if (member.agent != &agent) continue;
    if (!member.end)
      member_ended(member, {.kind = RankEnd::Kind::agent_lost,
                            .time_ns = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(),
                            .our_signal = told_to_end_ ? SIGKILL : 0,
                            .is_of_srun = starter_.lost_srun()});
    if (!agent.is_local()) member_over(member);
  }
  if (agent.is_local()) await_lost_supervisors();
}

/// Slurm kills what a killed srun has started, and an agent may still have said so of its ranks before it was killed itself.
void Job::blame_srun(const AgentLink& agent) {
  for (RankEnd& end : ends_) {
    const bool is_there = std::ranges::any_of(members_, [&](const Member& member) {
      return member.agent == &agent && member.placement.rank == end.rank;
    });
    if (!is_there || end.kind != RankEnd::Kind::signalled || end.value != SIGKILL || end.our_signal != 0)
      continue;
    end.kind = RankEnd::Kind::agent_lost;
    end.is_of_srun = true;
  }
}

/// The supervisors of an agent that was killed end their ranks. They are our children now.
void Job::await_lost_supervisors() {
  look_for_supervisors_at_.reset();
  for (Member& member : members_) {
    if (member.is_over || member.agent->phase != AgentLink::Phase::lost) continue;
    if (member.supervisor == 0 || ::waitpid(member.supervisor, nullptr, WNOHANG) != 0) {
      member_over(member);
    } else {
      look_for_supervisors_at_ = Clock::now() + kSupervisorPause;
    }
  }
}

Job::Member* Job::member_of(AgentLink& agent, std::int32_t rank) {
  const auto found = std::ranges::find_if(members_, [&](const Member& member) {
    return member.agent == &agent && member.placement.rank == rank;
  });
  return found == members_.end() ? nullptr : &*found;
}

void Job::member_over(Member& member) {
  member.is_over = true;
  if (member.output.pipe() < 0) member.output.close(console_);
  if (member.error_output.pipe() < 0) member.error_output.close(console_);
}

}  // namespace dabke
