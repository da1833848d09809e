// Who descends from whom, and who has begun to end, read from /proc.
#pragma once

#include <sys/types.h>

#include <vector>

namespace dabke::launcher {

/// All children of `ancestor`, their children and so on; zombies left out, and those of `except` with all
/// below them. What forks meanwhile may be missing.
std::vector<pid_t> descendants_of(pid_t ancestor, const std::vector<pid_t>& except = {});

/// Whether it has begun to end, or is a zombie: no signal changes any more how it ends, and what it had open
/// may be closed already. False of a process that does not exist.
bool is_ending(pid_t pid);

}  // namespace dabke::launcher
