// Signals to processes that a test has found by its own means.
#pragma once

#include <signal.h>

#include <stdexcept>
#include <string>

namespace dabke::test {

/// Sends the signal to this one process. Throws for a pid that names no process, as after a search without
/// result. kill() would take it for a process group, or for all processes of the machine.
inline void send_signal(pid_t pid, int signal) {
  if (pid <= 1)
    throw std::logic_error("signal " + std::to_string(signal) + " has no process to go to (pid " +
                           std::to_string(pid) + ")");
  ::kill(pid, signal);
}

}  // namespace dabke::test
