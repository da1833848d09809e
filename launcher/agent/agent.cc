#include "launcher/agent/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "launcher/agent/carried_input.h"
#include "launcher/agent/carried_output.h"
#include "launcher/agent/descriptors.h"
#include "launcher/agent/frame_channel.h"
#include "launcher/agent/orphans.h"
#include "launcher/agent/process_setup.h"
#include "launcher/agent/process_tree.h"
#include "launcher/agent/program.h"
#include "launcher/agent/protocol.h"
#include "launcher/agent/store_door.h"
#include "launcher/agent/worker_environment.h"
#include "runtime/base/clock.h"
#include "runtime/base/whereabouts.h"

extern char** environ;

namespace dabke {
namespace {

using namespace std::chrono_literals;

/// So much may wait for the launcher before no more output is read.
constexpr std::size_t kEnoughWaits = std::size_t{1} << 20;

constexpr int kBadDirectory = 2;

std::int64_t agent_now_ns() { return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(); }

std::string value_in(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& each : environment) {
    if (each.starts_with(name + "=")) return each.substr(name.size() + 1);
  }
  return "";
}

/// What this process has and `environment` has not. Nothing of the connection that brought it here.
void add_own_variables(std::vector<std::string>& environment) {
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string own = *each;
    const std::string name = own.substr(0, own.find('='));
    const bool is_known = std::ranges::any_of(
        environment, [&](const std::string& given) { return given.starts_with(name + "="); });
    if (!is_known && !name.starts_with("SSH_")) environment.push_back(own);
  }
}

class Agent {
 public:
  explicit Agent(AgentStart start)
      : channel_(std::move(start.in), std::move(start.out)),
        outputs_(std::move(start.outputs)),
        carries_output_(outputs_.empty()),
        input_(std::move(start.input)),
        inherited_(std::move(start.inherited)),
        job_key_(std::move(start.job_key)) {}

  void run() {
    while (!is_done()) turn();
  }

 private:
  struct Worker {
    int rank = 0;
    pid_t supervisor = -1;
    Fd channel;  // closed: the supervisor has ended
    pid_t pid = 0;
    bool has_ended = false;
    bool is_over = false;  // and the launcher knows it
    CarriedOutput output, error_output;
  };

  template <class T>
  void tell(FrameKind kind, const T& message) {
    channel_.send(static_cast<std::uint8_t>(kind), to_wire(message));
  }
  /// The launcher closes the conversation; where it needs nothing more of us, it need not wait for us to see that.
  bool is_done() const {
    const bool is_told = !workers_.empty() && channel_.waiting() == 0 &&
                         std::ranges::all_of(workers_, [](const Worker& worker) { return worker.is_over; });
    return (is_launcher_gone_ && !has_running_supervisor() && orphans_.due() == kNever) || is_told;
  }
  bool has_running_supervisor() const {
    return std::ranges::any_of(workers_,
                               [](const Worker& worker) { return static_cast<bool>(worker.channel); });
  }

  void turn();
  TimePoint next_deadline() const;
  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const pollfd& entry);
  void check_time();
  void take_frames();
  void take_frame(FrameKind kind, std::string_view content);
  void prepare(std::string_view content);
  Status prepare_ranks();
  void refuse(int exit_code, const std::string& why);
  void start();
  Status start_rank(std::size_t index, const std::vector<std::string>& environment, const Pinning& pinning);
  Pinning pinning();
  void command(std::int32_t command);
  void end_all(std::int32_t command);
  void look();
  void launcher_is_gone();
  void take_reports(Worker& worker);
  void take_report(Worker& worker, const Report& report);
  void supervisor_ended(Worker& worker);
  void kill_orphans();
  void tell_who_is_over();

  FrameChannel channel_;
  std::vector<OutputEnds> outputs_;
  const bool carries_output_;
  Fd input_;
  const InheritedState inherited_;
  const std::string job_key_;
  PrepareMessage job_;
  std::string program_;
  std::unique_ptr<StoreDoor> door_;
  CarriedInput carried_input_;
  Orphans orphans_;
  std::vector<Worker> workers_;
  bool is_held_[2] = {false, false};  // stdout, stderr
  bool is_told_to_end_ = false;       // a signal of ours may have ended what ends now
  bool is_launcher_gone_ = false;
  bool is_paused_ = false;
  TimePoint heard_at_ = Clock::now();
  std::optional<TimePoint> abandon_at_;  // supervisors that do not answer
};

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
  TimePoint next = std::min(orphans_.due(), abandon_at_.value_or(kNever));
  if (job_.peer_timeout_ms > 0 && !is_paused_ && !is_launcher_gone_)
    next = std::min(next, heard_at_ + std::chrono::milliseconds(job_.peer_timeout_ms));
  return next;
}

void Agent::add_poll_entries(std::vector<pollfd>& entries) const {
  if (!is_launcher_gone_) channel_.add_poll_entries(entries);
  if (door_) door_->add_poll_entries(entries);
  carried_input_.add_poll_entries(entries);
  for (const Worker& worker : workers_) {
    if (worker.channel) entries.push_back({worker.channel.get(), POLLIN, 0});
    for (const CarriedOutput* output : {&worker.output, &worker.error_output}) {
      if (output->is_open() && !is_held_[output->is_error_output() ? 1 : 0] &&
          channel_.waiting() < kEnoughWaits)
        entries.push_back({output->pipe(), POLLIN, 0});
    }
  }
}

void Agent::handle(const pollfd& entry) {
  if ((entry.revents & POLLOUT) != 0) channel_.flush();
  if (entry.fd == channel_.in() && (entry.revents & ~POLLOUT) != 0) return take_frames();
  if (door_) door_->handle(entry);
  if (carried_input_.handle(entry)) channel_.send(static_cast<std::uint8_t>(FrameKind::input_taken), {});
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

void Agent::check_time() {
  const TimePoint now = Clock::now();
  if (now >= orphans_.due()) kill_orphans();
  tell_who_is_over();
  if (abandon_at_ && now >= *abandon_at_) {
    for (const Worker& worker : workers_) {
      if (worker.channel) ::kill(worker.supervisor, SIGKILL);
    }
    abandon_at_.reset();
  }
  const bool listens = job_.peer_timeout_ms > 0 && !is_paused_ && !is_launcher_gone_;
  if (listens && now >= heard_at_ + std::chrono::milliseconds(job_.peer_timeout_ms)) launcher_is_gone();
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
  ClockMessage clock;
  StoreMessage store;
  TextMessage text;
  switch (kind) {
    case FrameKind::prepare: return prepare(content);
    case FrameKind::go: return start();
    case FrameKind::look: return look();
    case FrameKind::pause: is_paused_ = true; return;
    case FrameKind::command:
      if (from_wire(content, order)) command(order.command);
      return;
    case FrameKind::hold:
      if (from_wire(content, hold)) is_held_[hold.is_error_output ? 1 : 0] = hold.is_held;
      return;
    case FrameKind::input:
      if (from_wire(content, text)) carried_input_.take(text.text);
      return;
    case FrameKind::beat:
      if (from_wire(content, clock)) tell(FrameKind::clock, ClockMessage{clock.asked_ns, agent_now_ns()});
      return;
    case FrameKind::store_bytes:
      if (door_ && from_wire(content, store)) door_->connections().take_bytes(store.connection, store.bytes);
      return;
    case FrameKind::store_close:
      if (door_ && from_wire(content, store)) door_->connections().take_close(store.connection);
      return;
    default: return;  // none that an agent is sent
  }
}

void Agent::prepare(std::string_view content) {
  if (!from_wire(content, job_)) return refuse(1, "the launcher's first message cannot be read");
  if (job_.job_key.empty()) job_.job_key = job_key_;
  if (job_.keeps_own_variables) add_own_variables(job_.environment);
  if (!job_.directory.empty() && ::chdir(job_.directory.c_str()) != 0) {
    return refuse(kBadDirectory,
                  fmt::format("cannot enter the directory {}: {}; make it there, or start dabkerun in "
                              "a directory that every host has",
                              job_.directory, system_error("", errno).message()));
  }
  const std::string path = value_in(job_.environment, "PATH");
  const ProgramSearch found = find_program(job_.command.front(), path.empty() ? kStandardPath : path);
  if (found.path.empty()) return refuse(found.exit_code, found.message);
  program_ = found.path;
  if (const Status status = prepare_ranks(); !status.is_ok()) return refuse(1, status.message());
  channel_.send(static_cast<std::uint8_t>(FrameKind::ready), {});
}

Status Agent::prepare_ranks() {
  if (job_.rendezvous.empty()) {
    DABKE_ASSIGN_OR_RETURN(door_, StoreDoor::open(channel_));
    job_.rendezvous = door_->url();
  }
  if (!job_.carries_input) return {};
  DABKE_RETURN_IF_ERROR(carried_input_.open());
  input_ = carried_input_.take_end();
  return {};
}

void Agent::refuse(int exit_code, const std::string& why) {
  tell(FrameKind::failed, FailedMessage{exit_code, why});
}

Pinning Agent::pinning() {
  if (!job_.pin_to_cores) return {};
  Pinning pinning = pin_to_cores(usable_cores(), static_cast<int>(job_.ranks.size()));
  if (!pinning.warning.empty()) tell(FrameKind::says, TextMessage{pinning.warning});
  return pinning;
}

void Agent::start() {
  const Pinning pinned = pinning();
  Status status;
  for (std::size_t i = 0; i < job_.ranks.size() && status.is_ok(); ++i)
    status = start_rank(i, job_.environment, pinned);
  input_ = Fd();
  outputs_.clear();
  if (!status.is_ok()) refuse(1, status.message());
}

Status Agent::start_rank(std::size_t index, const std::vector<std::string>& environment,
                         const Pinning& pinning) {
  const RankPlacement& placement = job_.ranks[index].placement;
  OutputPipe output, error_output;
  OutputEnds ends;
  if (carries_output_) {
    DABKE_ASSIGN_OR_RETURN(output, make_output_pipe());
    DABKE_ASSIGN_OR_RETURN(error_output, make_output_pipe());
    ends = {std::move(output.write_end), std::move(error_output.write_end)};
  } else {
    ends = std::move(outputs_.at(index));
  }
  const JobFacts facts{job_.rendezvous, job_.job_id, job_.job_key, job_.variables};
  SpawnRequest request{.program = program_,
                       .arguments = job_.command,
                       .environment = worker_environment(environment, facts, placement),
                       .cores = {},
                       .rank = placement.rank,
                       .input = placement.rank == 0 ? input_.get() : -1,
                       .output = ends.output.get(),
                       .error_output = ends.error_output.get()};
  if (!pinning.cores.empty()) {
    request.cores = pinning.cores[static_cast<std::size_t>(placement.local_rank)];
    if (job_.verbose)
      tell(FrameKind::says, TextMessage{fmt::format("rank {} is pinned to cores: {}", placement.rank,
                                                    fmt::join(request.cores, ","))});
  }
  DABKE_ASSIGN_OR_RETURN(SpawnedWorker spawned, spawn_worker(request, inherited_));
  Worker worker{.rank = placement.rank,
                .supervisor = spawned.supervisor,
                .channel = std::move(spawned.channel),
                .output = {},
                .error_output = {}};
  if (carries_output_) {
    worker.output = CarriedOutput(std::move(output.read_end), placement.rank, false);
    worker.error_output = CarriedOutput(std::move(error_output.read_end), placement.rank, true);
  }
  workers_.push_back(std::move(worker));
  return {};
}

void Agent::command(std::int32_t command) {
  if (command != SIGSTOP && command != SIGCONT) return end_all(command);
  for (const Worker& worker : workers_) {
    if (worker.channel)
      (void)!::send(worker.channel.get(), &command, sizeof command, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

/// `command` is one that ranks may end of.
void Agent::end_all(std::int32_t command) {
  is_told_to_end_ = true;
  for (const Worker& worker : workers_) {
    if (worker.channel)
      (void)!::send(worker.channel.get(), &command, sizeof command, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  if (!abandon_at_) abandon_at_ = Clock::now() + kAbandonAfter;
}

void Agent::look() {
  StatesMessage message;
  for (const Worker& worker : workers_) {
    if (!worker.has_ended)
      message.ranks.push_back({worker.rank, is_ending(worker.pid), process_state(worker.pid)});
  }
  tell(FrameKind::states, message);
}

void Agent::launcher_is_gone() {
  is_launcher_gone_ = true;
  channel_.close();
  for (Worker& worker : workers_) {
    worker.output = CarriedOutput();
    worker.error_output = CarriedOutput();
  }
  end_all(Command::kEnd);
}

void Agent::take_reports(Worker& worker) {
  for (;;) {
    Report report;
    const ssize_t got = ::recv(worker.channel.get(), &report, sizeof report, MSG_DONTWAIT);
    if (got == static_cast<ssize_t>(sizeof report)) {
      take_report(worker, report);
      continue;
    }
    // A supervisor that ends with a command unread resets the channel; this is said once, before its last
    // reports.
    if (got < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    if (got < 0 && errno == EAGAIN) return;
    break;
  }
  supervisor_ended(worker);
}

void Agent::take_report(Worker& worker, const Report& report) {
  switch (report.kind) {
    case Report::Kind::started:
      worker.pid = report.value;
      return tell(FrameKind::started, StartedMessage{worker.rank, worker.pid, worker.supervisor});
    case Report::Kind::left_behind:
      return tell(FrameKind::says,
                  TextMessage{fmt::format(
                      "rank {}: {} of its processes did not end on SIGKILL; they hang in the kernel",
                      worker.rank, report.value)});
    case Report::Kind::not_started:
    case Report::Kind::exited: break;
  }
  worker.has_ended = true;
  const bool is_exit = report.kind == Report::Kind::exited;
  tell(FrameKind::ended,
       EndedMessage{worker.rank, is_exit ? EndedMessage::How::exited : EndedMessage::How::not_started,
                    report.value, report.time_ns, is_exit ? report.our_signal : 0});
}

void Agent::supervisor_ended(Worker& worker) {
  int status = 0;
  const bool is_known = ::waitpid(worker.supervisor, &status, 0) == worker.supervisor;
  if (!is_known || !WIFEXITED(status) || WEXITSTATUS(status) != 0) orphans_.seek();
  worker.channel = Fd();
  if (worker.has_ended) return;
  worker.has_ended = true;
  // What the supervisor had sent is not known.
  tell(FrameKind::ended, EndedMessage{worker.rank, EndedMessage::How::supervisor_lost, 0, agent_now_ns(),
                                      is_told_to_end_ ? SIGKILL : 0});
}

void Agent::kill_orphans() {
  std::vector<pid_t> supervisors;
  for (const Worker& worker : workers_) {
    if (worker.channel) supervisors.push_back(worker.supervisor);
  }
  if (const std::size_t left = orphans_.kill(supervisors); left != 0)
    tell(FrameKind::says,
         TextMessage{fmt::format("{} processes of ranks whose supervisor was killed did not end on SIGKILL; "
                                 "they hang in the kernel",
                                 left)});
}

/// Also what a killed supervisor has left is over then.
void Agent::tell_who_is_over() {
  if (orphans_.due() != kNever) return;
  for (Worker& worker : workers_) {
    if (worker.channel || worker.is_over) continue;
    worker.is_over = true;
    worker.output.finish(channel_);
    worker.error_output.finish(channel_);
    tell(FrameKind::over, RankMessage{worker.rank});
  }
}

}  // namespace

int run_agent(AgentStart start) {
  ::setsid();  // what the terminal sends is the launcher's alone
  // Not "dabkerun", so that killing by that name ends the launcher and leaves its agents to clean up.
  ::prctl(PR_SET_NAME, "dabke-agent");
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  (void)!::write(start.out.get(), kAgentMagic.data(), kAgentMagic.size());
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
  return run_agent(std::move(start));
}

}  // namespace dabke
