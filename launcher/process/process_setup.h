// The changes that dabkerun makes to its own process, as launcher and as agent.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launcher/process/supervisor.h"
#include "runtime/base/threads/owned.h"

struct signalfd_siginfo;

namespace dabke::launcher {

/// Stores the state that the ranks must get back, and changes it for this process. From here on
/// kForwardedSignals wait until they are read.
InheritedState prepare_process();

/// Returns the signals that the launcher and its agents take: signals that end a job, and signals that are
/// forwarded.
std::vector<int> job_signals();

/// Directs the signals to the descriptor from now on. A signal that is ignored (by nohup, or in a shell's
/// background job) stays ignored. Empty if no descriptor is left.
Fd route_signals(std::span<const int> signals);

/// The sender of a signal.
struct SignalSender {
  std::int64_t pid = 0;  // 0: the kernel, a terminal, or a process outside of this container
  std::string name;      // "pid 71 (slurmstepd)"
  /// True for a batch system, which signals each process of a step, one by one. Other senders, such as pkill,
  /// may have picked any of the processes.
  bool is_batch_system = false;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.pid, self.name, self.is_batch_system);
  }
};
SignalSender sender_of(const signalfd_siginfo& info);

/// Restores the state before another program replaces this one.
void restore_process(const InheritedState& inherited);

}  // namespace dabke::launcher
