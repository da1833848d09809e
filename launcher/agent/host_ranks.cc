#include "launcher/agent/host_ranks.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/agent_protocol/messages.h"
#include "launcher/machine/host_cores.h"
#include "launcher/process/process_tree.h"
#include "launcher/process/worker_environment.h"
#include "runtime/base/text/wait_description.h"
#include "runtime/links/process_identity.h"

namespace dabke::launcher {
namespace {

/// The variable that numerical libraries read.
constexpr const char* kThreads = "OMP_NUM_THREADS";

/// The bytes that may wait for the launcher before reading output stops.
constexpr std::size_t kEnoughWaits = std::size_t{1} << 20;

/// The time on this host's steady clock.
std::int64_t now_ns() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

}  // namespace

HostRanks::HostRanks(FrameChannel& channel, std::vector<OutputEnds> outputs, InheritedState inherited)
    : channel_(channel),
      outputs_(std::move(outputs)),
      carries_output_(outputs_.empty()),
      inherited_(std::move(inherited)) {}

void HostRanks::prepare(PrepareMessage job, std::string program, Fd input) {
  job_ = std::move(job);
  program_ = std::move(program);
  input_ = std::move(input);
}

/// Shares the cores among all ranks of the machine, although another agent may run some of them under another
/// name of the machine.
CoreShares HostRanks::core_shares() {
  if (job_.bind_to == BindTo::none || job_.ranks.empty()) return {};
  CoreShares shares =
      launcher::share_cores(cores_of_this_host(), job_.ranks.front().placement.local_size, job_.bind_to);
  const bool is_refused = job_.bind_to == BindTo::core && shares.units.empty();
  if (job_.verbose || is_refused)
    report(fmt::format("--bind-to: ranks on host {}: {}", job_.ranks.front().placement.host, shares.words));
  return shares;
}

Status HostRanks::start() {
  const CoreShares shares = core_shares();
  Status status;
  for (std::size_t i = 0; i < job_.ranks.size() && status.is_ok(); ++i) status = start_rank(i, shares);
  input_ = Fd();
  outputs_.clear();
  return status;
}

Status HostRanks::start_rank(std::size_t index, const CoreShares& shares) {
  const RankOrder& order = job_.ranks[index];
  OutputPipe output, error_output;
  OutputEnds ends;
  if (carries_output_) {
    DABKE_ASSIGN_OR_RETURN(output, make_stdout(job_.stdout_kind));
    resize(output.read_end.get(), windows_[order.placement.rank]);
    DABKE_ASSIGN_OR_RETURN(error_output, make_output_pipe());
    ends = {std::move(output.write_end), std::move(error_output.write_end)};
  } else {
    ends = std::move(outputs_.at(index));
  }
  DABKE_ASSIGN_OR_RETURN(SpawnedWorker spawned, spawn(order, shares, ends));
  Worker worker{.rank = order.placement.rank,
                .supervisor = spawned.supervisor,
                .channel = std::move(spawned.channel),
                .output = {},
                .error_output = {}};
  if (carries_output_) {
    worker.output = CarriedOutput(std::move(output.read_end), worker.rank, false);
    worker.error_output = CarriedOutput(std::move(error_output.read_end), worker.rank, true);
  }
  workers_.push_back(std::move(worker));
  return {};
}

Result<SpawnedWorker> HostRanks::spawn(const RankOrder& order, const CoreShares& shares,
                                       const OutputEnds& ends) {
  const RankPlacement& placement = order.placement;
  const JobFacts facts{job_.rendezvous, job_.job_id, job_.job_key, job_.variables, job_.is_elastic};
  std::vector<std::string> environment = job_.environment;
  for (const auto& [name, value] : order.variables) set_variable(environment, name, value);
  if (shares.threads > 0 && variable_in(environment, kThreads).empty())
    set_variable(environment, kThreads, fmt::format("{}", shares.threads));
  SpawnRequest request{.program = program_,
                       .arguments = job_.command,
                       .environment = worker_environment(environment, facts, placement),
                       .cores = {},
                       .rank = placement.rank,
                       .input = placement.rank == 0 ? input_.get() : -1,
                       .output = ends.output.get(),
                       .error_output = ends.error_output.get(),
                       .grace = std::chrono::milliseconds(job_.grace_ms),
                       .stop_limit = std::chrono::milliseconds(job_.stop_limit_ms)};
  if (!shares.units.empty()) {
    request.cores = shares.units[static_cast<std::size_t>(placement.local_rank)];
    if (job_.verbose)
      report(fmt::format("rank {} is bound to cores: {}", placement.rank, fmt::join(request.cores, ",")));
  }
  return spawn_worker(request, inherited_);
}

void HostRanks::start_later(RankOrder order) {
  const int rank = order.placement.rank;
  job_.ranks.assign(1, std::move(order));
  const Status status = start_rank(0, core_shares());
  if (status.is_ok()) return;
  report(status.message());
  send_message(channel_, FrameKind::ended,
               EndedMessage{rank, EndedMessage::How::not_started, EAGAIN, now_ns(), 0});
  send_message(channel_, FrameKind::over, RankMessage{rank});
}

/// A pid from another namespace of pids, as that of a container, means nothing here.
void HostRanks::watch_rank(const WatchMessage& watch) {
  const links::ProcessIdentity process = links::parse_process(watch.process);
  if (!links::identity_of_this_process().shares_pids_with(process)) return;
  const std::int32_t words[]{Command::kWatch, static_cast<std::int32_t>(process.pid)};
  for (const Worker& worker : workers_) {
    if (worker.rank == watch.rank && worker.channel)
      (void)!::send(worker.channel.get(), words, sizeof words, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void HostRanks::kill_rank(int rank) {
  for (const Worker& worker : workers_) {
    if (worker.rank == rank) send_to_supervisor(worker, Command::kKill);
  }
}

void HostRanks::take_window(const WindowMessage& window) {
  const TerminalSize size{static_cast<std::size_t>(window.columns), static_cast<std::size_t>(window.rows)};
  windows_[window.rank] = size;
  for (const Worker& worker : workers_) {
    if (worker.rank == window.rank) resize(worker.output.pipe(), size);
  }
}

void HostRanks::command(std::int32_t command) {
  if (command == Command::kEnd || command == Command::kKill) return end_all(command);
  const int signal = Command::signal_of(command);
  if (signal != SIGSTOP && !is_forwarded(signal)) is_asked_to_end_ = true;
  send_to_supervisors(command);
}

void HostRanks::drop_output() {
  for (Worker& worker : workers_) {
    worker.output = CarriedOutput();
    worker.error_output = CarriedOutput();
  }
}

bool HostRanks::are_all_over() const {
  return !job_.is_elastic && !workers_.empty() && std::ranges::all_of(workers_, &Worker::is_over);
}

bool HostRanks::are_none_left() const {
  return orphans_.due() == kNever && std::ranges::none_of(workers_, [](const Worker& worker) {
           return static_cast<bool>(worker.channel);
         });
}

TimePoint HostRanks::deadline() const { return std::min(orphans_.due(), abandon_at_.value_or(kNever)); }

void HostRanks::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const Worker& worker : workers_) {
    if (worker.channel) entries.push_back({worker.channel.get(), POLLIN, 0});
    for (const CarriedOutput* output : {&worker.output, &worker.error_output}) {
      if (output->is_open() && !is_held_[output->is_error_output() ? 1 : 0] &&
          channel_.waiting() < kEnoughWaits)
        entries.push_back({output->pipe(), POLLIN, 0});
    }
  }
}

void HostRanks::handle(const pollfd& entry) {
  for (Worker& worker : workers_) {
    if (worker.channel && entry.fd == worker.channel.get()) return take_reports(worker);
    for (CarriedOutput* output : {&worker.output, &worker.error_output}) {
      if (output->is_open() && entry.fd == output->pipe()) {
        output->read(channel_);
        return;
      }
    }
  }
}

void HostRanks::tick(TimePoint now) {
  if (now >= orphans_.due()) kill_orphans();
  report_who_is_over();
  if (!abandon_at_ || now < *abandon_at_) return;
  for (const Worker& worker : workers_) {
    if (worker.channel) ::kill(worker.supervisor, SIGKILL);
  }
  abandon_at_.reset();
}

void HostRanks::send_to_supervisors(std::int32_t command) {
  for (const Worker& worker : workers_) send_to_supervisor(worker, command);
}

void HostRanks::send_to_supervisor(const Worker& worker, std::int32_t command) const {
  if (worker.channel)
    (void)!::send(worker.channel.get(), &command, sizeof command, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// From now on the supervisors end their ranks, by force if a rank does not end.
void HostRanks::end_all(std::int32_t command) {
  is_asked_to_end_ = true;
  send_to_supervisors(command);
  if (!abandon_at_) abandon_at_ = Clock::now() + abandon_after(std::chrono::milliseconds(job_.grace_ms));
}

void HostRanks::report_states() {
  StatesMessage message;
  for (const Worker& worker : workers_) {
    if (!worker.has_ended)
      message.ranks.push_back({worker.rank, is_ending(worker.pid), process_state(worker.pid)});
  }
  send_message(channel_, FrameKind::states, message);
}

void HostRanks::take_reports(Worker& worker) {
  for (;;) {
    Report report;
    const ssize_t got = ::recv(worker.channel.get(), &report, sizeof report, MSG_DONTWAIT);
    if (got == static_cast<ssize_t>(sizeof report)) {
      take_report(worker, report);
      continue;
    }
    // A supervisor that ends before it has read a command resets the channel. recv() reports that once,
    // before the supervisor's last reports.
    if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (got < 0 && errno == EAGAIN) return;
    break;
  }
  supervisor_ended(worker);
}

void HostRanks::take_report(Worker& worker, const Report& report) {
  switch (report.kind) {
    case Report::Kind::started:
      worker.pid = report.value;
      return send_message(channel_, FrameKind::started,
                          StartedMessage{worker.rank, worker.pid, worker.supervisor});
    case Report::Kind::left_behind:
      return this->report(
          fmt::format("rank {}: {} of its processes did not end on SIGKILL; they hang in the kernel",
                      worker.rank, report.value));
    case Report::Kind::stopped:
      return this->report(
          fmt::format("pid {} has been stopped for {:g} s (DABKE_PEER_TIMEOUT_SECONDS), and is killed",
                      report.value, static_cast<double>(job_.stop_limit_ms) / 1000));
    case Report::Kind::not_started:
    case Report::Kind::exited: break;
  }
  worker.has_ended = true;
  const bool is_exit = report.kind == Report::Kind::exited;
  send_message(channel_, FrameKind::ended,
               EndedMessage{worker.rank, is_exit ? EndedMessage::How::exited : EndedMessage::How::not_started,
                            report.value, report.time_ns, is_exit ? report.our_signal : 0});
}

void HostRanks::supervisor_ended(Worker& worker) {
  int status = 0;
  const bool is_known = ::waitpid(worker.supervisor, &status, 0) == worker.supervisor;
  if (!is_known || !WIFEXITED(status) || WEXITSTATUS(status) != 0) orphans_.seek();
  worker.channel = Fd();
  if (worker.has_ended) return;
  worker.has_ended = true;
  // The supervisor's last reports are lost.
  send_message(channel_, FrameKind::ended,
               EndedMessage{worker.rank, EndedMessage::How::supervisor_lost, 0, now_ns(),
                            is_asked_to_end_ ? SIGKILL : 0});
}

void HostRanks::kill_orphans() {
  std::vector<pid_t> supervisors;
  for (const Worker& worker : workers_) {
    if (worker.channel) supervisors.push_back(worker.supervisor);
  }
  if (const std::size_t left = orphans_.kill(supervisors); left != 0)
    report(fmt::format(
        "{} processes of ranks whose supervisor was killed did not end on SIGKILL; they hang in the kernel",
        left));
}

/// Reports the ranks that are over. Waits until the processes that a killed supervisor has left are over,
/// too.
void HostRanks::report_who_is_over() {
  if (orphans_.due() != kNever) return;
  for (Worker& worker : workers_) {
    if (worker.channel || worker.is_over) continue;
    worker.is_over = true;
    worker.output.finish(channel_);
    worker.error_output.finish(channel_);
    send_message(channel_, FrameKind::over, RankMessage{worker.rank});
  }
}

void HostRanks::report(const std::string& text) { send_message(channel_, FrameKind::log, TextMessage{text}); }

}  // namespace dabke::launcher
