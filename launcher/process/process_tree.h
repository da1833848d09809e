// The descendants of a process, and processes that have begun to end, read from /proc.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

namespace dabke::launcher {

/// Returns all children of `ancestor`, their children and so on. Zombies are left out, and so are processes
/// of `except` with all below them. Processes that are forked meanwhile may be missing.
std::vector<pid_t> descendants_of(pid_t ancestor, const std::vector<pid_t>& except = {});

/// True if the process has begun to end, or is a zombie: signals cannot change any more how it ends, and its
/// files may be closed already. False if it does not exist.
bool is_ending(pid_t pid);

/// The state of a process at one moment.
struct ProcessMoment {
  bool is_stopped = false;         // by a signal; a process that a debugger has stopped is not
  unsigned long start_time = 0;    // since boot; a later process with its pid has another
  unsigned long running_time = 0;  // of all its threads
};
/// None if the process does not exist.
std::optional<ProcessMoment> moment_of(pid_t pid);

}  // namespace dabke::launcher
