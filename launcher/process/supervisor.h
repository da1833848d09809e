// The small process above each rank. It ensures that no process of the rank outlives the rank or the agent.
//
// 1. The agent of its host forks it. It has a session of its own, so the terminal's Ctrl-C reaches only the
//    launcher.
// 2. It is a subreaper: all processes that the rank leaves behind, double-forked daemons included, become its
//    children.
// 3. A channel (a pair of sockets, one message per datagram) connects it to the agent. End of file there
//    means that the agent is gone, even by SIGKILL, and has the same effect as Command::kEnd.
// 4. It reports the start of the program and its exit. It ends itself once no descendant is left, which the
//    agent sees as end of file.
// 5. Ending: SIGTERM to every descendant, and after the grace period SIGKILL, until the kernel reports that
//    there are no children.
// 6. If there is a limit for a stopped rank, a rank that is stopped for longer by somebody else is killed.
//    The rank is the program, until Command::kWatch names the process below it that has called init: then
//    the program is a shell that waits for it. If the rank is killed, the program's exit is reported once the
//    rank has ended, too.
// 7. A batch system signals each process of a step: the launcher, agents, supervisors and ranks. If this
//    process receives such a signal, its rank has received it, too. The signal also leads to a command of the
//    launcher. The supervisor then skips that command. The command may also come first, so it is delayed by a
//    second.
// 8. A signal that other senders send only to this process (pkill, which finds it by its name) is ignored. To
//    signal a job, users signal dabkerun.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace dabke::launcher {

/// Signals whose meaning the application defines. dabkerun passes each on to each rank once, and none of its
/// own processes ends because of them.
inline constexpr std::array kForwardedSignals{SIGUSR1, SIGUSR2, SIGQUIT, SIGCONT, SIGWINCH};
inline bool is_forwarded(int signal) { return std::ranges::count(kForwardedSignals, signal) != 0; }

/// The default time from SIGTERM to SIGKILL (--grace-period).
inline constexpr std::chrono::milliseconds kGracePeriod{4000};  // so that all processes have ended within 5 s
/// The same after a SIGTERM from outside: batch systems send one before their limit, and allow this much time
/// to save.
inline constexpr std::chrono::milliseconds kGraceAfterTerm{30000};
/// The time that SIGKILL may take to end a process. A process that takes longer hangs in the kernel (in a
/// dead network file system, for example), and would be waited for without end.
inline constexpr std::chrono::seconds kKillLimit{5};
/// The time after which a supervisor that has not ended its rank counts as unresponsive.
constexpr std::chrono::milliseconds abandon_after(std::chrono::milliseconds grace) {
  return grace + kKillLimit + std::chrono::seconds(2);
}

/// A message from the agent to the supervisor: a signal number, or one of these. The rank's process group
/// gets signals that end, stop or continue it. Other signals go only to the rank, because its child processes
/// (a data loader's workers) need not handle them.
struct Command {
  static constexpr std::int32_t kEnd = -1;    // SIGTERM, later SIGKILL, to the whole tree
  static constexpr std::int32_t kKill = -2;   // SIGKILL at once
  static constexpr std::int32_t kWatch = -3;  // a second number follows: the pid of the rank
  /// Added to a signal that comes from a batch system: the rank may receive it without us.
  static constexpr std::int32_t kOfStep = 1 << 8;
  static constexpr int signal_of(std::int32_t command) { return command & (kOfStep - 1); }
};

/// A message from the supervisor to the agent.
struct Report {
  enum class Kind : std::int32_t {
    started,      // value: pid of the rank's program, which may still fail to start
    not_started,  // value: errno
    exited,       // value: as from waitpid
    left_behind,  // value: number of processes that survived SIGKILL
    stopped,      // value: pid of the rank, which was stopped for too long, and is killed
  };
  Kind kind = Kind::started;
  std::int32_t value = 0;
  std::int64_t time_ns = 0;  // steady clock, which all processes of a host share
  // For `exited`: the last signal that we sent to the program before it began to end; 0: none.
  std::int32_t our_signal = 0;
};

/// The process state in which dabkerun was started, and which each rank gets back.
struct InheritedState {
  struct Disposition {
    int signal = 0;
    struct sigaction action {};
  };
  sigset_t signal_mask{};
  std::vector<Disposition> dispositions;  // of the signals for which dabkerun needs other dispositions
  rlimit open_files{};
};

/// All that the supervisor needs, prepared before the fork. Strings for execve must outlive it.
struct WorkerProcess {
  std::string program;  // path
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=value
  std::vector<int> cores;                // to pin to; empty: not pinned
  int rank = 0;
  int input = -1, output = -1, error_output = -1;  // become 0, 1 and 2 of the program
  int channel = -1;
  std::chrono::milliseconds grace = kGracePeriod;  // from SIGTERM to SIGKILL
  std::chrono::milliseconds stop_limit{};          // of a stopped rank; 0: none
  InheritedState inherited;
};

/// Called in the child of a fork. The parent must have had one thread, with all relevant signals blocked.
/// Closes every other descriptor.
[[noreturn]] void supervise(const WorkerProcess& worker);

}  // namespace dabke::launcher
