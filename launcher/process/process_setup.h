// What dabkerun changes about its own process, as launcher and as agent.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "launcher/process/supervisor.h"
#include "runtime/base/threads/owned.h"

struct signalfd_siginfo;

namespace dabke::launcher {

/// Takes note of what the ranks are to get back, and changes it for this process. From here on kForwardedSignals wait until
/// somebody reads them.
InheritedState prepare_process();

/// What the launcher and its agents take: signals that tell a job to end, and those that are forwarded.
std::vector<int> job_signals();

/// Signals arrive through the descriptor from now on. One that is ignored (by nohup, or in a shell's background job) stays
/// ignored. Empty: no descriptor is left.
Fd route_signals(std::span<const int> signals);

/// Who has sent a signal.
struct SignalSender {
  std::int64_t pid = 0;  // 0: the kernel, a terminal, or a process outside of this container
  std::string name;      // "pid 71 (slurmstepd)"
  /// A batch system signals each process of a step, one by one. Others (pkill, say) may have picked any of them.
  bool is_batch_system = false;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.pid, self.name, self.is_batch_system);
  }
};
SignalSender sender_of(const signalfd_siginfo& info);

/// Gives it back, before another program takes the place of this one.
void restore_process(const InheritedState& inherited);

}  // namespace dabke::launcher
