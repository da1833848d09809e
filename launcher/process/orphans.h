// What supervisors that were killed leave: processes of the job that nobody stands over.
//
// The kernel ends a rank's own program with its supervisor, and hands the program's children to the agent, the
// next subreaper above. The agent's other children are supervisors alone.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/base/clock.h"

namespace dabke::launcher {

class Orphans {
 public:
  /// To be made before the first supervisor is started.
  Orphans();

  /// A supervisor has been killed, and is no child any more: what was below it is to be killed.
  void seek();
  /// When kill() is due; kNever: there are no orphans.
  TimePoint due() const { return due_.value_or(kNever); }
  /// Called when it is due. How many have been given up, because SIGKILL does not end them.
  std::size_t kill(const std::vector<pid_t>& supervisors_left);

 private:
  std::optional<TimePoint> due_;
  std::optional<TimePoint> limit_;  // from the first SIGKILL on
  Duration pause_{};
  bool was_empty_ = false;  // the last reading of the process table
};

}  // namespace dabke::launcher
