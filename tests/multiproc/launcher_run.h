// Runs the real dabkerun and keeps its output.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/threads/owned.h"
#include "tests/temporary_directory.h"

namespace dabke::test {

/// The longest time that a run may take; only a hang takes longer.
inline constexpr std::chrono::seconds kLongest{180};

struct Finished {
  int exit_code = -1;  // as a shell reports it
  std::string out, error;
  std::chrono::milliseconds took{0};
};

struct LauncherSetup {
  std::string program;                   // another launcher instead of dabkerun
  std::string input;                     // the content of stdin, which then ends
  std::vector<std::string> environment;  // NAME=value, added
  bool one_output = false;               // 2>&1
  std::vector<int> ignored_signals;      // ignored from the start, as under nohup
  std::string terminal;                  // path of stdin, stdout and stderr; it leads a session there
};

/// One dabkerun. Its destructor kills it if it still runs. Tests check that it then leaves no process behind.
class LauncherRun {
 public:
  explicit LauncherRun(std::vector<std::string> arguments, const LauncherSetup& setup = {});
  ~LauncherRun();

  pid_t pid() const { return pid_; }
  void signal(int signal) const;
  /// Waits until stdout or stderr has `text` this many times. Returns false after 180 s, or when dabkerun has
  /// ended without that.
  bool wait_for_output(const std::string& text, int times = 1) { return wait_for(result_.out, text, times); }
  bool wait_for_error(const std::string& text, int times = 1) { return wait_for(result_.error, text, times); }
  /// The number that follows `text` in stdout. Wait for that text first; throws if it is not there.
  int number_after(const std::string& text) const {
    return std::stoi(result_.out.substr(result_.out.find(text)).substr(text.size()));
  }
  /// Closes the reading end of dabkerun's stdout.
  void close_output() { out_ = Fd(); }
  /// Reads both streams until they end and waits for the exit. `limit` counts from the start.
  Finished finish(std::chrono::seconds limit = kLongest);

 private:
  bool wait_for(const std::string& stream, const std::string& text, int times);
  bool read_some(std::chrono::milliseconds limit);

  pid_t pid_ = -1;
  Fd out_, error_;
  Finished result_;
  std::chrono::steady_clock::time_point begin_;
};

/// A replacement for ssh, which runs an agent's command on this host.
std::string make_remote_shell(const TemporaryDirectory& directory);

pid_t parent_of(pid_t pid);
/// Processes whose program was started with `variable` ("NAME=value") in its environment.
std::vector<pid_t> processes_with(const std::string& variable);
/// The one of them that dabkerun has started as this worker of an elastic job; 0: there is none. Tests
/// run at the same time, so the variable must be one of this job alone.
pid_t worker_with(const std::string& variable, int worker);
/// True if the process is gone, or is a zombie that has not been reaped.
bool is_gone(pid_t pid);
/// True if the process is gone before the time is over.
bool is_gone_within(pid_t pid, std::chrono::milliseconds limit);

std::vector<std::string> lines_of(const std::string& text);
std::vector<std::string> sorted_lines(const std::string& text);

}  // namespace dabke::test
