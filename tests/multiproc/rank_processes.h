// Ranks as processes of their own. The test starts them, and not dabkerun, so that survivors can report what
// they saw.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/multiproc/launcher_run.h"

namespace dabke::test {

class RankProcesses {
 public:
  RankProcesses(int size, const std::string& what);
  /// Kills the ranks that still run.
  ~RankProcesses();

  void signal(int rank, int signal) const;
  /// True if the rank has printed `text`; waits up to 300 s.
  bool wait_for_output(int rank, const std::string& text) const;
  std::string output(int rank) const;
  /// The rank's exit code (128 + signal if killed), or -1 if it has not ended within the limit.
  int exit_code(int rank, std::chrono::milliseconds limit);

 private:
  struct Process {
    pid_t pid = -1;
    int code = -1;
  };
  std::string file(int rank) const { return "rank" + std::to_string(rank); }

  TemporaryDirectory place_;
  std::vector<Process> ranks_;
};

}  // namespace dabke::test
