// Runs the real dabkerun and keeps what it says.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/threads/owned.h"
#include "tests/temporary_directory.h"

namespace dabke::test {

/// So long nothing here takes that ends at all.
inline constexpr std::chrono::seconds kLongest{180};

struct Finished {
  int exit_code = -1;  // as a shell gives it
  std::string out, error;
  std::chrono::milliseconds took{0};
};

struct LauncherSetup {
  std::string program;                   // another launcher instead of dabkerun
  std::string input;                     // what stdin gives; then it ends
  std::vector<std::string> environment;  // NAME=value, added
  bool one_output = false;               // 2>&1
  std::vector<int> ignored_signals;      // at the start, as under nohup
  std::string terminal;                  // a path: its stdin, stdout, stderr, and it leads a session there
};

/// One dabkerun. Its destructor kills it if it still runs; the tests say that nothing is left then.
class LauncherRun {
 public:
  explicit LauncherRun(std::vector<std::string> arguments, const LauncherSetup& setup = {});
  ~LauncherRun();

  pid_t pid() const { return pid_; }
  void signal(int signal) const;
  /// Waits until stdout, or stderr, has `text` this many times; false when 180 s are over or it has ended
  /// without.
  bool wait_for_output(const std::string& text, int times = 1) { return wait_for(result_.out, text, times); }
  bool wait_for_error(const std::string& text, int times = 1) { return wait_for(result_.error, text, times); }
  /// The number that follows `text` in stdout, which has been waited for.
  int number_after(const std::string& text) const {
    return std::stoi(result_.out.substr(result_.out.find(text) + text.size()));
  }
  /// Nobody reads its stdout any more.
  void close_output() { out_ = Fd(); }
  /// Reads both streams until they end and waits for the exit; so long at most, from the start.
  Finished finish(std::chrono::seconds limit = kLongest);

 private:
  bool wait_for(const std::string& stream, const std::string& text, int times);
  bool read_some(std::chrono::milliseconds limit);

  pid_t pid_ = -1;
  Fd out_, error_;
  Finished result_;
  std::chrono::steady_clock::time_point begin_;
};

/// A program that stands in for ssh, and runs on this host what a host's agent is started with.
std::string make_remote_shell(const TemporaryDirectory& directory);

pid_t parent_of(pid_t pid);
/// That have `variable` ("NAME=value") in the environment that their program began with.
std::vector<pid_t> processes_with(const std::string& variable);
/// Gone, or a zombie that nobody has reaped yet.
bool is_gone(pid_t pid);
/// Whether it is gone before the time is over.
bool is_gone_within(pid_t pid, std::chrono::milliseconds limit);

std::vector<std::string> lines_of(const std::string& text);
std::vector<std::string> sorted_lines(const std::string& text);

}  // namespace dabke::test
