// Starts one rank on this host: its channel and its supervisor.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "launcher/process/supervisor.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// The agent's side of a rank.
struct SpawnedWorker {
  pid_t supervisor = -1;
  Fd channel;  // Command out, Report in; end of file: the supervisor has ended
};

struct SpawnRequest {
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<int> cores;
  int rank = 0;
  int input = -1;  // the rank's stdin; -1: /dev/null
  int output = -1, error_output = -1;
  std::chrono::milliseconds grace = kGracePeriod, stop_limit{};  // as in WorkerProcess
};

/// The calling process must have one thread: a lock that another thread holds at the fork stays locked in the
/// supervisor.
Result<SpawnedWorker> spawn_worker(const SpawnRequest& request, const InheritedState& inherited);

}  // namespace dabke::launcher
