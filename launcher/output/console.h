// Writes whole lines to dabkerun's own stdout and stderr without ever blocking the launcher.
//
// The launcher's files are not those it was given: O_NONBLOCK belongs to the open file, which the calling
// shell and everybody else at the terminal use, too. So what can be opened again is (launcher/output/open_again.h),
// and a socket is asked at each call.
#pragma once

#include <poll.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// Lines wait in memory until there is room, so a pager that is not read or a terminal stopped with Ctrl-S
/// holds up the output and not the launcher: signals and dying ranks are still handled. When both descriptors
/// are one file (2>&1), both streams share one queue, or a line of one would tear a line of the other.
class Console {
 public:
  enum class Stream { out, error };
  /// A number for each whose lines are to be told apart.
  using Writer = int;
  static constexpr Writer kLauncher = 0;
  /// What becomes of an unfinished line when another writer begins one: it is kept, or, as its own writer would draw another in
  /// its place, taken from the terminal.
  enum class End { kept, redrawn };

  /// Borrows the descriptors. `may_erase`: a terminal takes control sequences.
  Console(int out_fd, int error_fd, bool may_erase);

  /// Dropped when the stream is broken. `text` is a line with its terminator, or a part of one. On a terminal no line is of two
  /// writers, and of the launcher's own lines none begins within another; otherwise nothing is added.
  void write(Stream stream, std::string_view text, Writer writer = kLauncher, End end = End::kept);
  bool is_terminal(Stream stream) const { return queue_of(stream).is_terminal; }
  /// The last that was written is a part of a line of `writer`.
  bool is_in_line_of(Stream stream, Writer writer) const;
  /// Whoever sits at the terminal has typed a line, and its echo has ended one that was unfinished.
  void take_typed_line();
  /// Lines that stay below what is written to a terminal, the second stream, until others replace them; none: they go.
  void pin(std::vector<std::string> lines);
  /// Whether standard output and standard error go to one place.
  bool is_one() const { return shared_; }
  /// So much is waiting that whoever fills this stream should stop for now.
  bool is_full(Stream stream) const;
  bool is_drained() const;

  /// Adds to the caller's poll one entry a queue that has been used, with POLLOUT while something is waiting.
  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const pollfd& entry);

  /// Drops what is waiting. How many bytes that was.
  std::size_t abandon();

  /// Nobody reads stdout any more.
  bool stdout_is_closed() const { return queues_[0].closed; }
  /// What went wrong in writing, once; empty: nothing.
  std::string take_error();

 private:
  /// `returned`: it ended with \r alone, and a terminal still shows it.
  enum class Line { ended, unfinished, redrawn, returned };
  struct Queue {
    Queue() = default;
    Queue(int borrowed, mode_t mode);

    Fd own;  // empty: what was borrowed cannot be opened again
    int fd = -1;
    bool is_file = false;  // a write never blocks for long, whatever its size
    bool is_socket = false;
    bool is_terminal = false;
    bool closed = false;  // nobody reads
    bool failed = false;  // cannot be written for another reason
    std::string waiting;
    std::size_t written = 0;  // how much of `waiting`
    bool in_line = false;     // what has been written ends within a line
    bool is_torn = false;     // and the rest of that was dropped
    Line line = Line::ended;  // the last that has been written, or waits to be
    Writer line_of = kLauncher;
    bool used = false;  // something has been for it: whether anybody reads it matters from then on
  };

  void draw_pinned();
  void erase_pinned(Queue& queue);
  void leave_line(Queue& queue, Writer writer) const;

  const Queue& queue_of(Stream stream) const { return queues_[stream == Stream::error && !shared_ ? 1 : 0]; }
  Queue& queue_of(Stream stream) { return queues_[stream == Stream::error && !shared_ ? 1 : 0]; }
  void write_some(Queue& queue);
  static void drop(Queue& queue);

  Queue queues_[2];
  bool shared_ = false;
  const bool may_erase_;
  std::vector<std::string> pinned_;
  std::size_t drawn_ = 0;  // lines of it, which are the last of the terminal
  std::string error_;
};

}  // namespace dabke::launcher
