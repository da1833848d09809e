// What supervisors that were killed leave: processes of the job that nobody stands over.
//
// The kernel ends a rank's own program with its supervisor, and hands the program's children to dabkerun, the
// next subreaper above.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/clock.h"

namespace dabke {

class Orphans {
 public:
  /// `job_id`: as in DABKE_JOB_ID. To be made before the first supervisor is started.
  explicit Orphans(const std::string& job_id);

  /// `supervisor` has been killed, and is no child any more: what was below it is to be killed.
  void take(pid_t supervisor);
  /// When kill() is due; kNever: there are no orphans.
  TimePoint due() const { return due_.value_or(kNever); }
  /// Called when it is due. How many have been given up, because SIGKILL does not end them.
  std::size_t kill(const std::vector<pid_t>& supervisors_left);

 private:
  std::vector<pid_t> find(const std::vector<pid_t>& supervisors_left) const;

  const std::string variable_;  // every rank has it
  std::vector<pid_t> lost_;
  std::optional<TimePoint> due_;
  TimePoint limit_{};
  Duration pause_{};
};

}  // namespace dabke
