#include "launcher/process/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include "launcher/process/descriptors.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/process_tree.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

/// The time that the remaining processes of a rank get after it ended by itself, before they are signalled to
/// end. For example, a `tee` at the other end of the script's own pipe still has to write the last lines.
constexpr auto kAfterglow = 1s;

/// The most by which the signals to two hosts may differ: a batch system signals one host after the other.
constexpr auto kStepTime = 1s;
/// The time within which the command may come for a signal that the rank has received already: it may have
/// travelled over two hosts.
constexpr auto kCommandTime = 3s;
/// The pause between two checks of a rank below a shell, whose stops are not reported to this process.
constexpr std::chrono::milliseconds kCheckPause = 1s;

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& text : strings) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

/// Runs in the rank's own process: becomes the program, or writes errno to `failure`.
[[noreturn]] void become_program(const WorkerProcess& worker, pid_t supervisor, int failure) {
  ::setpgid(0, 0);
  // If the supervisor itself is killed with SIGKILL, the rank must not continue without one.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != supervisor) ::_exit(127);
  if (!worker.cores.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : worker.cores) CPU_SET(core, &set);
    ::sched_setaffinity(0, sizeof set, &set);
  }
  const int sources[] = {worker.input, worker.output, worker.error_output};
  for (int fd = 0; fd < 3; ++fd) {
    if (sources[fd] != fd) ::dup2(sources[fd], fd);  // the copy is not CLOEXEC; sources are 0 or above 2
  }
  ::dup2(failure, 3);
  ::fcntl(3, F_SETFD, FD_CLOEXEC);
  close_descriptors(4, ~0U);
  restore_process(worker.inherited);

  const auto environment = pointers_to(worker.environment);
  auto arguments = pointers_to(worker.arguments);
  ::execve(worker.program.c_str(), arguments.data(), environment.data());
  if (errno == ENOEXEC) {  // a script without #! is run by the shell, as usual
    arguments[0] = const_cast<char*>(worker.program.c_str());
    arguments.insert(arguments.begin(), const_cast<char*>("sh"));
    ::execve("/bin/sh", arguments.data(), environment.data());
  }
  const int error = errno;
  (void)!::write(3, &error, sizeof error);
  ::_exit(127);
}

struct TimedSignal {
  int signal = 0;
  TimePoint time{};
};

/// Removes the oldest `signal`. True if there was one.
bool take_first(std::vector<TimedSignal>& signals, int signal) {
  const auto found = std::ranges::find(signals, signal, &TimedSignal::signal);
  if (found == signals.end()) return false;
  signals.erase(found);
  return true;
}

class Supervisor {
 public:
  Supervisor(const WorkerProcess& worker, int signals, int exec_failure, pid_t program)
      : channel_(worker.channel),
        grace_(worker.grace),
        stop_limit_(worker.stop_limit),
        signals_(signals),
        exec_failure_(exec_failure),
        program_(program) {}

  void run() {
    report(Report::Kind::started, program_);
    while (reap()) {
      advance();
      wait_for_event();
    }
  }

 private:
  void report(Report::Kind kind, std::int32_t value) {
    const Report message{kind, value, std::chrono::nanoseconds(Clock::now().time_since_epoch()).count(),
                         our_signal_};
    // An agent that is gone needs no report.
    (void)!::send(channel_, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  /// False once no child is left.
  bool reap() {
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
      if (pid == 0) return !given_up_;
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0) {
        if (unreported_exit_) report_exit();
        return false;
      }
      if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
        if (pid == program_) program_stopped(WIFSTOPPED(status));
      } else if (pid == program_) {
        program_ended(status);
      }
      if (unreported_exit_ && !is_rank_left()) report_exit();
    }
  }

  void program_ended(int status) {
    program_ = -1;
    int error = 0;
    if (::read(exec_failure_, &error, sizeof error) == static_cast<ssize_t>(sizeof error)) {
      report(Report::Kind::not_started, error);
    } else {
      unreported_exit_ = status;
    }
    waiting_.clear();
    // If a signal asked it to end, its remaining processes have the time that the launcher gives to all.
    if (!end_at_ && !is_asked_to_end_) end_at_ = Clock::now() + kAfterglow;
  }

  /// True if the rank below the program has been killed, and has not ended yet. The other ranks must not go
  /// on until it has.
  bool is_rank_left() const {
    if (!kill_at_ || !below_program_) return false;
    const auto moment = moment_of(below_program_->pid);
    return moment && moment->start_time == below_program_->last.start_time;
  }

  void report_exit() { report(Report::Kind::exited, *std::exchange(unreported_exit_, std::nullopt)); }

  void program_stopped(bool is_stopped) {
    if (below_program_) return;
    stopped_until_.reset();
    if (is_stopped && !is_stopped_ && stop_limit_ > 0ms) stopped_until_ = Clock::now() + stop_limit_;
  }

  /// The rank is `pid`. If that is the program, or a process that cannot be seen from here, the program is
  /// watched as before.
  void watch(pid_t pid) {
    if (stop_limit_ == 0ms || pid == program_) return;
    const auto ours = descendants_of(::getpid());
    const auto moment = moment_of(pid);
    if (!moment || std::ranges::find(ours, pid) == ours.end()) return;
    below_program_ = {pid, *moment};
    stopped_until_.reset();
    check_at_ = Clock::now();
  }

  /// Checks whether the rank below the program is stopped. If its running time has changed, it has run since
  /// the last check, although it is stopped again.
  void check_rank(TimePoint now) {
    const auto moment = moment_of(below_program_->pid);
    if (!moment || moment->start_time != below_program_->last.start_time) {
      check_at_ = kNever;
      stopped_until_.reset();
      return;
    }
    const bool has_run = moment->running_time != below_program_->last.running_time;
    below_program_->last = *moment;
    if (!moment->is_stopped || is_stopped_) {
      stopped_until_.reset();
    } else if (!stopped_until_ || has_run) {
      stopped_until_ = now + stop_limit_;
    }
    check_at_ = now + std::min(kCheckPause, stop_limit_ / 4);
  }

  /// Does what is due: waiting signals, SIGTERM at end_at_, SIGKILL from kill_at_ on.
  void advance() {
    const TimePoint now = Clock::now();
    while (!waiting_.empty() && now >= waiting_.front().time) {
      send_to_program(waiting_.front().signal);
      waiting_.erase(waiting_.begin());
    }
    if (below_program_ && now >= std::min(check_at_, stopped_until_.value_or(kNever))) check_rank(now);
    if (stopped_until_ && now >= *stopped_until_) {
      stopped_until_.reset();
      check_at_ = kNever;
      report(Report::Kind::stopped, below_program_ ? below_program_->pid : program_);
      end_at_ = kill_at_ = now;
    }
    if (end_at_ && !kill_at_ && now >= *end_at_) {
      kill_at_ = now + grace_;
      note_signal(SIGTERM);
      for (const pid_t pid : descendants_of(::getpid())) {
        ::kill(pid, SIGTERM);
        ::kill(pid, SIGCONT);  // a stopped process ends only once it runs again
      }
    }
    if (!kill_at_ || now < *kill_at_ || now < next_kill_) return;
    const auto left = descendants_of(::getpid());
    if (give_up_at_ && now >= *give_up_at_) {
      if (unreported_exit_) report_exit();
      report(Report::Kind::left_behind, static_cast<std::int32_t>(left.size()));
      given_up_ = true;
      return;
    }
    note_signal(SIGKILL);
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    if (!give_up_at_)
      give_up_at_ = now + kKillLimit;  // not from kill_at_ on: this process may itself be late
    next_kill_ = now + kill_pause_;
    kill_pause_ =
        std::min<Duration>(2 * kill_pause_, 500ms);  // processes that fork faster meet the next round
  }

  /// Called before `signal` is sent to the program. A program that is already ending does not end because of
  /// it.
  void note_signal(int signal) {
    if (program_ > 0 && !is_ending(program_)) our_signal_ = signal;
  }

  void wait_for_event() {
    if (given_up_) return;
    TimePoint deadline = kNever;
    if (kill_at_) {
      deadline = std::max(*kill_at_, next_kill_);
    } else if (end_at_) {
      deadline = *end_at_;
    }
    if (!waiting_.empty()) deadline = std::min(deadline, waiting_.front().time);
    if (stopped_until_) deadline = std::min(deadline, *stopped_until_);
    deadline = std::min(deadline, check_at_);
    pollfd entries[] = {{signals_, POLLIN, 0}, {agent_gone_ ? -1 : channel_, POLLIN, 0}};
    if (::poll(entries, 2, poll_timeout_ms(deadline)) <= 0) return;
    if (entries[0].revents != 0) take_signal();
    if (entries[1].revents != 0) take_command();
  }

  void take_signal() {
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD || !sender_of(info).is_batch_system) return;
    if (!take_first(waiting_, signal)) had_.push_back({signal, Clock::now() + kCommandTime});
  }

  /// True if the rank has received this signal already, from the sender that also signalled this process.
  bool has_had(int signal) {
    const TimePoint now = Clock::now();
    std::erase_if(had_, [&](const TimedSignal& one) { return now >= one.time; });
    return take_first(had_, signal);
  }

  void take_command() {
    std::int32_t words[2]{};
    const ssize_t got = ::recv(channel_, words, sizeof words, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got == static_cast<ssize_t>(sizeof words) && words[0] == Command::kWatch) return watch(words[1]);
    std::int32_t command = words[0];
    if (got != static_cast<ssize_t>(sizeof command)) {
      agent_gone_ = true;
      command = Command::kEnd;
    }
    const TimePoint now = Clock::now();
    if (command == Command::kEnd) {
      end_at_ = end_at_ ? std::min(*end_at_, now) : now;
    } else if (command == Command::kKill) {
      end_at_ = end_at_.value_or(now);
      kill_at_ = now;
    } else if (program_ > 0) {
      pass_on(command);
    }
  }

  void pass_on(std::int32_t command) {
    const int signal = Command::signal_of(command);
    if (signal == SIGSTOP || (signal == SIGCONT && is_stopped_)) {
      is_stopped_ = signal == SIGSTOP;
      ::kill(-program_, signal);
      return;
    }
    if (!is_forwarded(signal)) {
      note_signal(signal);
      is_asked_to_end_ = true;
    }
    if ((command & Command::kOfStep) == 0) return send_to_program(signal);
    if (has_had(signal)) return go_on_to_end(signal);
    waiting_.push_back({signal, Clock::now() + kStepTime});
  }

  void send_to_program(int signal) const {
    const bool is_for_it_alone = is_forwarded(signal) && signal != SIGCONT;
    ::kill(is_for_it_alone ? program_ : -program_, signal);
    go_on_to_end(signal);
  }

  /// A stopped process handles the signal that ends it only once it runs again.
  void go_on_to_end(int signal) const {
    if (!is_forwarded(signal)) ::kill(-program_, SIGCONT);
  }

  const int channel_;
  const std::chrono::milliseconds grace_;
  const std::chrono::milliseconds stop_limit_;
  const int signals_;
  const int exec_failure_;
  pid_t program_;                       // -1 once it has ended
  std::optional<int> unreported_exit_;  // the program's, as from waitpid
  int our_signal_ = 0;                  // as in Report
  bool agent_gone_ = false;
  bool given_up_ = false;
  std::optional<TimePoint> end_at_;
  std::optional<TimePoint> kill_at_;
  std::optional<TimePoint> stopped_until_;  // when a stopped rank is killed
  struct BelowProgram {
    pid_t pid = 0;
    ProcessMoment last;
  };
  std::optional<BelowProgram> below_program_;  // the rank, if it is not the program
  TimePoint check_at_ = kNever;                // of that rank
  std::optional<TimePoint> give_up_at_;
  TimePoint next_kill_{};
  Duration kill_pause_ = 20ms;
  bool is_asked_to_end_ = false;      // by a signal; the launcher makes sure that no process is left
  bool is_stopped_ = false;           // by the launcher, which continues it later
  std::vector<TimedSignal> waiting_;  // signals to pass on at their time; the next first
  // Signals that the rank has received, with the time until which their commands may come.
  std::vector<TimedSignal> had_;
};

}  // namespace

void supervise(const WorkerProcess& worker) {
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // Not "dabkerun", so that killing by that name ends the launcher, and leaves its supervisors to clean up.
  char name[16];
  std::snprintf(name, sizeof name, "dabke-rank%d", worker.rank);
  ::prctl(PR_SET_NAME, name);
  close_all_but({worker.input, worker.output, worker.error_output, worker.channel});

  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t taken;
  ::sigemptyset(&taken);
  ::sigaddset(&taken, SIGCHLD);
  for (const int signal : job_signals()) ::sigaddset(&taken, signal);
  const int signals = ::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  int failure[2];
  if (signals < 0 || ::pipe2(failure, O_CLOEXEC) != 0) ::_exit(1);

  const pid_t self = ::getpid();
  const pid_t program = ::fork();
  if (program == 0) become_program(worker, self, failure[1]);
  if (program < 0) {
    const Report message{Report::Kind::not_started, errno, Clock::now().time_since_epoch().count(), 0};
    (void)!::send(worker.channel, &message, sizeof message, MSG_NOSIGNAL);
    ::_exit(1);
  }
  ::setpgid(program, program);  // in both processes, so that it is done before either continues
  ::close(failure[1]);
  ::fcntl(failure[0], F_SETFL, O_NONBLOCK);

  // The program's output must end when its process tree has ended, not when its supervisor has.
  stand_in_null({0, 1, 2});
  for (const int fd : {worker.input, worker.output, worker.error_output}) {
    if (fd > 2) ::close(fd);
  }

  Supervisor(worker, signals, failure[0], program).run();
  ::_exit(0);
}

}  // namespace dabke::launcher
