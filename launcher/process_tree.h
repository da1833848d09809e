// Who descends from whom, read from /proc.
#pragma once

#include <sys/types.h>

#include <vector>

namespace dabke {

/// All children of `ancestor`, their children and so on; zombies left out. What forks meanwhile may be
/// missing.
std::vector<pid_t> descendants_of(pid_t ancestor);

}  // namespace dabke
