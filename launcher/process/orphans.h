// Processes that killed supervisors leave: processes of the job without a supervisor.
//
// When a supervisor dies, the kernel ends the rank's own program. It makes the program's children children of
// the agent, the next subreaper above. All other children of the agent are supervisors.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/base/clock.h"

namespace dabke::launcher {

class Orphans {
 public:
  /// Must be made before the first supervisor is started.
  Orphans();

  /// Called when a supervisor has been killed and is no longer a child: the processes below it must be
  /// killed.
  void seek();
  /// Returns the time at which kill() is due; kNever if there are no orphans.
  TimePoint due() const { return due_.value_or(kNever); }
  /// Called when it is due. Returns the number of processes that are abandoned because SIGKILL does not end
  /// them.
  std::size_t kill(const std::vector<pid_t>& supervisors_left);

 private:
  std::optional<TimePoint> due_;
  std::optional<TimePoint> limit_;  // from the first SIGKILL on
  Duration pause_{};
  bool was_empty_ = false;  // the last reading of the process table
};

}  // namespace dabke::launcher
