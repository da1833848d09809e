// Text that is typed at dabkerun's terminal, on its way to rank 0.
//
// Rank 0 does not read the terminal itself, because it is in a session of its own. The terminal would give it
// text that is typed while dabkerun is in the background, and the shell would lose that text. The kernel
// keeps such text from dabkerun.
#pragma once

#include <poll.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// A line is read from the terminal when rank 0 has taken all text before it. Text that rank 0 does not take
/// stays for the shell.
class TerminalInput {
 public:
  /// True if this is the terminal of dabkerun's session, and dabkerun can be in its foreground.
  static bool can_read(int terminal);
  /// Takes a terminal that can_read() has accepted.
  static Result<std::unique_ptr<TerminalInput>> open(int terminal);

  /// Returns rank 0's end. Called once; the process that opened it must keep no other copy.
  Fd take_end() { return std::move(rank_end_); }

  /// Adds the descriptors that the caller's poll must watch.
  void add_poll_entries(std::vector<pollfd>& entries);
  void handle(const pollfd& entry);
  /// True once for each line that has been read, if the terminal has shown it with its newline.
  bool take_echoed_line() { return std::exchange(has_echoed_line_, false); }
  /// The latest time at which the caller's poll must begin anew.
  TimePoint looks_again_at() const { return looks_again_at_; }

 private:
  TerminalInput(Fd terminal, Fd rank_end, Fd pipe)
      : terminal_(std::move(terminal)), rank_end_(std::move(rank_end)), pipe_(std::move(pipe)) {}

  void read_line();
  void close();

  Fd terminal_;
  Fd rank_end_;
  Fd pipe_;
  bool is_taken_ = true;  // the text written to the pipe
  bool has_echoed_line_ = false;
  TimePoint looks_again_at_ = kNever;
};

}  // namespace dabke::launcher
