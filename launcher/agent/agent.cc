#include "launcher/agent/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "launcher/agent/agent_process.h"
#include "launcher/agent_protocol/greeting.h"
#include "launcher/agent_protocol/messages.h"
#include "launcher/machine/machine.h"
#include "launcher/process/descriptors.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/program.h"
#include "launcher/process/supervisor.h"
#include "launcher/process/worker_environment.h"

extern char** environ;

namespace dabke::launcher {
namespace {

constexpr int kBadDirectory = 2;

/// The time on this host's steady clock.
std::int64_t agent_now_ns() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

/// The time of day on this host, since 1970.
std::int64_t wall_now_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Adds the variables of this process that `environment` lacks, except those of the ssh connection that
/// started it.
void add_own_variables(std::vector<std::string>& environment) {
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string own = *each;
    const std::string name = own.substr(0, own.find('='));
    const bool is_known = std::ranges::any_of(
        environment, [&](const std::string& given) { return given.starts_with(name + "="); });
    if (!is_known && !name.starts_with("SSH_")) environment.push_back(own);
  }
}

}  // namespace

void Agent::turn() {
  std::vector<pollfd> entries;
  add_poll_entries(entries);
  if (::poll(entries.data(), entries.size(), poll_timeout_ms(next_deadline())) > 0) {
    for (const pollfd& entry : entries) {
      if (entry.revents != 0) handle(entry);
    }
  }
  check_time();
}

TimePoint Agent::next_deadline() const {
  TimePoint next = ranks_.deadline();
  if (expects_launcher()) next = std::min(next, heard_at_ + silence_limit());
  return next;
}

void Agent::add_poll_entries(std::vector<pollfd>& entries) const {
  entries.push_back({signals_.get(), POLLIN, 0});
  if (!is_launcher_gone_) channel_.add_poll_entries(entries);
  if (store_) store_->add_poll_entries(entries);
  if (examination_) entries.push_back({examination_->event(), POLLIN, 0});
  carried_input_.add_poll_entries(entries);
  ranks_.add_poll_entries(entries);
}

void Agent::handle(const pollfd& entry) {
  if (entry.fd == signals_.get()) return take_signal();
  if ((entry.revents & POLLOUT) != 0) channel_.flush();
  if (entry.fd == channel_.in() && (entry.revents & ~POLLOUT) != 0) return take_frames();
  if (store_) store_->handle(entry);
  if (examination_ && entry.fd == examination_->event()) return report_examination();
  if (carried_input_.handle(entry)) send_message(channel_, FrameKind::input_taken);
  ranks_.handle(entry);
}

void Agent::check_time() {
  const TimePoint now = Clock::now();
  ranks_.tick(now);
  if (expects_launcher() && now >= heard_at_ + silence_limit()) launcher_is_gone();
}

void Agent::take_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  send_message(channel_, FrameKind::signalled,
               SignalledMessage{static_cast<std::int32_t>(info.ssi_signo), sender_of(info)});
}

void Agent::take_frames() {
  const bool is_there = channel_.read();
  heard_at_ = Clock::now();
  is_paused_ = false;
  while (const auto frame = channel_.next()) take_frame(static_cast<FrameKind>(frame->kind), frame->content);
  if (!is_there || channel_.is_broken()) launcher_is_gone();
}

void Agent::take_frame(FrameKind kind, std::string_view content) {
  CommandMessage order;
  HoldMessage hold;
  WindowMessage window;
  ClockMessage clock;
  StoreMessage store;
  TextMessage text;
  RankMessage rank;
  WatchMessage watch;
  switch (kind) {
    case FrameKind::prepare: return prepare(content);
    case FrameKind::go: return start();
    case FrameKind::start_rank: return take_rank(content);
    case FrameKind::look: return ranks_.report_states();
    case FrameKind::examine: return examine(content);
    case FrameKind::reach:
    case FrameKind::measure: return take_examination(kind, content);
    case FrameKind::pause: is_paused_ = true; return;
    case FrameKind::command:
      if (from_wire(content, order)) ranks_.command(order.command);
      return;
    case FrameKind::watch_rank:
      if (from_wire(content, watch)) ranks_.watch_rank(watch);
      return;
    case FrameKind::end_rank:
      if (from_wire(content, rank)) ranks_.kill_rank(rank.rank);
      return;
    case FrameKind::hold:
      if (from_wire(content, hold)) ranks_.hold(hold.is_error_output, hold.is_held);
      return;
    case FrameKind::window:
      if (from_wire(content, window)) ranks_.take_window(window);
      return;
    case FrameKind::input:
      if (from_wire(content, text)) carried_input_.take(text.text);
      return;
    case FrameKind::beat:
      if (from_wire(content, clock))
        send_message(channel_, FrameKind::clock, ClockMessage{clock.asked_ns, agent_now_ns(), wall_now_ns()});
      return;
    case FrameKind::store_bytes:
      if (store_ && from_wire(content, store))
        store_->connections().take_bytes(store.connection, store.bytes);
      return;
    case FrameKind::store_close:
      if (store_ && from_wire(content, store)) store_->connections().take_close(store.connection);
      return;
    default: return;  // the agent expects no other frame
  }
}

void Agent::prepare(std::string_view content) {
  PrepareMessage job;
  if (!from_wire(content, job)) return refuse(1, "the launcher's first message cannot be read");
  if (job.job_key.empty()) job.job_key = job_key_;
  peer_timeout_ = std::chrono::milliseconds(job.peer_timeout_ms);
  if (job.keeps_own_variables) add_own_variables(job.environment);
  if (!job.directory.empty() && ::chdir(job.directory.c_str()) != 0) {
    return refuse(kBadDirectory, fmt::format("cannot enter the directory {}: {}; create it there, or start "
                                             "dabkerun in a directory that every host has",
                                             job.directory, std::generic_category().message(errno)));
  }
  const std::string path = variable_in(job.environment, "PATH");
  const ProgramSearch found = find_program(job.command.front(), path.empty() ? kStandardPath : path);
  if (found.path.empty()) return refuse(found.exit_code, found.message);
  if (const Status status = carry_for(job); !status.is_ok()) return refuse(1, status.message());
  ranks_.prepare(std::move(job), found.path, std::move(input_));
  send_message(channel_, FrameKind::ready);
}

/// Carries the ranks' input and their connections to the store, if both are on the launcher's host.
Status Agent::carry_for(PrepareMessage& job) {
  if (job.rendezvous.empty()) {
    DABKE_ASSIGN_OR_RETURN(store_, StoreProxy::open(channel_));
    job.rendezvous = store_->url();
  }
  if (!job.carries_input) return {};
  DABKE_RETURN_IF_ERROR(carried_input_.open());
  input_ = carried_input_.take_end();
  return {};
}

void Agent::start() {
  if (const Status status = ranks_.start(); !status.is_ok()) refuse(1, status.message());
}

void Agent::take_rank(std::string_view content) {
  RankOrder order;
  if (from_wire(content, order)) ranks_.start_later(std::move(order));
}

void Agent::refuse(int exit_code, const std::string& why) {
  send_message(channel_, FrameKind::failed, FailedMessage{exit_code, why});
}

void Agent::examine(std::string_view content) {
  ExamineMessage message;
  if (!from_wire(content, message)) return refuse(1, "the launcher's first message cannot be read");
  auto opened = Examination::open(message, job_key_, ranks_.inherited());
  if (!opened.is_ok()) return refuse(1, opened.status().message());
  examination_ = opened.take();
  send_message(channel_, FrameKind::examined, examination_->facts());
}

void Agent::take_examination(FrameKind kind, std::string_view content) {
  ReachMessage reach;
  MeasureMessage measure;
  Status status(Code::transport, "the launcher's message cannot be read");
  if (examination_ && kind == FrameKind::reach && from_wire(content, reach))
    status = examination_->begin(std::move(reach));
  if (examination_ && kind == FrameKind::measure && from_wire(content, measure))
    status = examination_->begin(std::move(measure));
  if (!status.is_ok()) refuse(1, status.message());
}

void Agent::report_examination() {
  const auto answer = examination_->take();
  if (!answer) return;
  if (const auto* reached = std::get_if<ReachedMessage>(&*answer))
    send_message(channel_, FrameKind::reached, *reached);
  if (const auto* measured = std::get_if<MeasuredMessage>(&*answer))
    send_message(channel_, FrameKind::measured, *measured);
}

void Agent::launcher_is_gone() {
  is_launcher_gone_ = true;
  channel_.close();
  ranks_.drop_output();
  ranks_.end_all(Command::kEnd);
}

/// Returns the limit of the launcher's silence; zero if silence means nothing.
Duration Agent::silence_limit() const {
  if (peer_timeout_) return *peer_timeout_;
  return ranks_.carries_output() ? kSilenceBeforeOrder : Duration{};
}

int run_agent(AgentStart start) {
  ::setsid();  // signals from the terminal go only to the launcher
  // Not "dabkerun", so that killing by that name ends the launcher, and leaves its agents to clean up.
  ::prctl(PR_SET_NAME, "dabke-agent");
  start.signals = route_signals(job_signals());
  if (!start.signals) return 1;
  const std::string greeting = greeting_text({agent_version(), this_machine()});
  (void)!::write(start.out.get(), greeting.data(), greeting.size());
  Agent(std::move(start)).run();
  return 0;
}

int run_agent_here() {
  AgentStart start{.in = Fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)),
                   .out = Fd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)),
                   .outputs = {},
                   .input = Fd(),
                   .inherited = prepare_process()};
  if (!start.in || !start.out || !stand_in_null({STDIN_FILENO, STDOUT_FILENO})) return 1;
  // The program that started this process has its own signal mask (start_shell()), which the ranks must not
  // inherit.
  ::sigemptyset(&start.inherited.signal_mask);
  return run_agent(std::move(start));
}

}  // namespace dabke::launcher
