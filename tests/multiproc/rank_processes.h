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
  RankProcesses() = default;
  /// A job whose ranks meet in a directory.
  RankProcesses(int size, const std::string& what);
  /// The same with another program, and with this environment for each rank.
  RankProcesses(int size, const std::string& program, const std::string& what,
                const std::vector<std::string>& environment);
  /// Kills the ranks that still run.
  ~RankProcesses();

  /// Starts one more process, whose number is the next rank's. `environment` is "NAME=value" and so on.
  void start(const std::string& program, const std::string& argument,
             const std::vector<std::string>& environment);
  int pid(int rank) const { return ranks_[static_cast<std::size_t>(rank)].pid; }
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
