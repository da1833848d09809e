// A process that starts agents (ssh, srun), or is an agent: its end, and its stderr.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

class WatchedProcess {
 public:
  WatchedProcess() = default;
  /// `words` is its stderr, which is read without waiting; empty: none.
  WatchedProcess(pid_t pid, Fd words);

  /// The descriptor of its stderr; -1 once that has ended.
  int words_fd() const { return words_.get(); }
  void read_words();
  /// The last bytes of its stderr.
  const std::string& words() const { return said_; }

  /// Waits for its end until `limit`, and reads its stderr meanwhile. False if it still runs.
  bool wait_until(TimePoint limit);
  /// Sends a signal to the process. If it leads a process group, the group gets the signal: a proxy of ssh,
  /// or the child processes of a shell.
  void send(int signal) const;
  /// The exit code in a shell's form; -1 if the process has not ended, or has not been waited for.
  int exit_code() const { return exit_code_; }
  bool was_killed() const { return was_killed_; }
  /// "was killed by SIGKILL", "ended with status code 1"
  std::string how_it_ended() const;

 private:
  bool has_ended(int options);

  pid_t pid_ = -1;
  Fd words_;
  std::string said_;
  int exit_code_ = -1;
  bool was_killed_ = false;
};

/// Returns the lines without carriage returns, and leaves out empty lines.
std::vector<std::string> non_empty_lines(const std::string& text);

}  // namespace dabke::launcher
