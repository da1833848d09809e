// The descendants of a process, and processes that have begun to end, read from /proc.
#pragma once

#include <sys/types.h>

#include <vector>

namespace dabke::launcher {

/// Returns all children of `ancestor`, their children and so on. Zombies are left out, and so are processes
/// of `except` with all below them. Processes that are forked meanwhile may be missing.
std::vector<pid_t> descendants_of(pid_t ancestor, const std::vector<pid_t>& except = {});

/// True if the process has begun to end, or is a zombie: signals cannot change any more how it ends, and its
/// files may be closed already. False if it does not exist.
bool is_ending(pid_t pid);

}  // namespace dabke::launcher
