// What is typed at dabkerun's terminal, on its way to rank 0.
//
// Rank 0 does not read the terminal itself. It is in a session of its own, so the terminal would give it what
// is typed while dabkerun is in the background, and the shell would miss that. From dabkerun the kernel keeps
// it.
#pragma once

#include <poll.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// A line is read from the terminal when rank 0 has taken all before it. What it does not take stays for the
/// shell.
class TerminalInput {
 public:
  /// Whether it is the terminal of dabkerun's session, and not one that dabkerun will never be in the
  /// foreground of.
  static bool can_read(int terminal);
  /// Takes a terminal that can_read() has accepted.
  static Result<std::unique_ptr<TerminalInput>> open(int terminal);

  /// Rank 0's end; taken once, and the process that opened it must keep no other copy.
  Fd take_end() { return std::move(rank_end_); }

  /// Adds what the caller's poll is to watch.
  void add_poll_entries(std::vector<pollfd>& entries);
  void handle(const pollfd& entry);
  /// Once for each line: one has been read, and the terminal has shown it with its newline.
  bool take_echoed_line() { return std::exchange(has_echoed_line_, false); }
  /// When the caller's poll is to begin anew, at the latest.
  TimePoint looks_again_at() const { return looks_again_at_; }

 private:
  TerminalInput(Fd terminal, Fd rank_end, Fd pipe)
      : terminal_(std::move(terminal)), rank_end_(std::move(rank_end)), pipe_(std::move(pipe)) {}

  void read_line();
  void close();

  Fd terminal_;
  Fd rank_end_;
  Fd pipe_;
  bool is_taken_ = true;  // what was written to the pipe
  bool has_echoed_line_ = false;
  TimePoint looks_again_at_ = kNever;
};

}  // namespace dabke::launcher
