// A process that brings agents (ssh, srun), or is one: its end, and what it says on stderr.
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
  /// `words` is its stderr, which is read without waiting; empty: it says nothing.
  WatchedProcess(pid_t pid, Fd words);

  /// Of its words; -1 once they have ended.
  int words_fd() const { return words_.get(); }
  void read_words();
  /// The end of what it has said.
  const std::string& words() const { return said_; }

  /// Waits for its end until `limit`, and reads its words meanwhile. False: it still runs.
  bool wait_until(TimePoint limit);
  /// Also to what it has started, where it leads a process group: a proxy of ssh's, or what a shell stands over.
  void send(int signal) const;
  /// As a shell gives it; -1: it has not ended, or nobody has waited for it.
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

/// Lines without carriage returns; those that are empty are left out.
std::vector<std::string> non_empty_lines(const std::string& text);

}  // namespace dabke::launcher
