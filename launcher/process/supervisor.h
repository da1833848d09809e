// The small process that stands over one rank, so that nothing of the rank outlives it or the agent.
//
// 1. The agent of its host forks it; it has a session of its own, so the terminal's Ctrl-C reaches the launcher
//    alone.
// 2. It is a subreaper: whatever the rank leaves behind, double-forked daemons included, becomes its child.
// 3. A channel (a pair of sockets, one message a datagram) joins it to the agent. End of file there means
//    that the agent is gone, even by kill -9, and has the same effect as Command::kEnd.
// 4. It reports the start of the program, its exit, and ends itself once no descendant is left. The agent
//    sees that as end of file.
// 5. Ending: SIGTERM to every descendant, its grace period later SIGKILL, until the kernel says that there are no
//    children.
// 6. A batch system signals each process of a step: the launcher, agents, supervisors and ranks. A signal that this process gets
//    from there itself, its rank has got as well. The command of the same signal, which comes of it, is then left out, and so that
//    it may be the later of the two, it waits a second before it is obeyed. What others send to this process alone (pkill,
//    which finds it by its name) says nothing of its rank, and is ignored: whoever wants to signal a job signals dabkerun.
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

/// Signals that mean whatever the application wants. dabkerun passes them on, to each rank once, and no process of its own ends of
/// them.
inline constexpr std::array kForwardedSignals{SIGUSR1, SIGUSR2, SIGQUIT, SIGCONT, SIGWINCH};
inline bool is_forwarded(int signal) { return std::ranges::count(kForwardedSignals, signal) != 0; }

/// The time from SIGTERM to SIGKILL where nothing else is said (--grace-period).
inline constexpr std::chrono::milliseconds kGracePeriod{4000};  // so that all is over within 5 s
/// The same after a SIGTERM from outside: batch systems send one before their limit, and give as long to save.
inline constexpr std::chrono::milliseconds kGraceAfterTerm{30000};
/// What a process may take to end on SIGKILL. One that does not hangs in the kernel (a dead network file system, say);
/// waiting on would be for ever.
inline constexpr std::chrono::seconds kKillLimit{5};
/// A supervisor that has not ended its rank by then does not answer.
constexpr std::chrono::milliseconds abandon_after(std::chrono::milliseconds grace) {
  return grace + kKillLimit + std::chrono::seconds(2);
}

/// What the agent says to the supervisor: a signal number, or one of these. The rank's process group gets signals that end or stop
/// it, or let it go on; others go to the rank alone, because what it has started (a data loader's workers) need not handle them.
struct Command {
  static constexpr std::int32_t kEnd = -1;   // SIGTERM, later SIGKILL, to the whole tree
  static constexpr std::int32_t kKill = -2;  // SIGKILL at once
  /// Added to a signal that comes from a batch system: the rank may have it, or get it, without us.
  static constexpr std::int32_t kOfStep = 1 << 8;
  static constexpr int signal_of(std::int32_t command) { return command & (kOfStep - 1); }
};

/// What the supervisor says to the agent.
struct Report {
  enum class Kind : std::int32_t {
    started,      // value: pid of the rank's program, which may still fail to start
    not_started,  // value: errno
    exited,       // value: as from waitpid
    left_behind,  // value: how many processes survived SIGKILL
  };
  Kind kind = Kind::started;
  std::int32_t value = 0;
  std::int64_t time_ns = 0;     // steady clock, which all processes of a host share
  std::int32_t our_signal = 0;  // exited: what the program was sent last before it began to end; 0: nothing
};

/// What dabkerun found when it started and each rank gets back.
struct InheritedState {
  struct Disposition {
    int signal = 0;
    struct sigaction action {};
  };
  sigset_t signal_mask{};
  std::vector<Disposition> dispositions;  // those that dabkerun needs to be others
  rlimit open_files{};
};

/// All that the supervisor needs, ready before the fork. Strings for execve must outlive it.
struct WorkerProcess {
  std::string program;  // path
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=value
  std::vector<int> cores;                // those to pin to; empty: not pinned
  int rank = 0;
  int input = -1, output = -1, error_output = -1;  // become 0, 1 and 2 of the program
  int channel = -1;
  std::chrono::milliseconds grace = kGracePeriod;  // from SIGTERM to SIGKILL
  InheritedState inherited;
};

/// Called in the child of a fork that had one thread and all signals blocked that matter; closes every other
/// descriptor.
[[noreturn]] void supervise(const WorkerProcess& worker);

}  // namespace dabke::launcher
