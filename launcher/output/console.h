// Writes whole lines to dabkerun's own stdout and stderr, and never blocks the launcher.
//
// O_NONBLOCK belongs to the open file, which the calling shell and other programs at the terminal use, too.
// So the launcher does not set it on the files that it was given. It opens them again if possible
// (launcher/output/open_again.h). For a socket it uses a flag of each call.
#pragma once

#include <poll.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// Lines wait in memory until there is room. So a pager that does not read, or a terminal stopped with
/// Ctrl-S, delays the output but not the launcher: signals and dying ranks are still handled. If both
/// descriptors are one file (2>&1), both streams share one queue, so that a line of one never tears a line of
/// the other.
class Console {
 public:
  enum class Stream { out, error };
  /// A number for each source of lines, to distinguish them.
  using Writer = int;
  static constexpr Writer kLauncher = 0;
  /// The fate of an unfinished line when another writer begins one. It is kept, or it is removed from the
  /// terminal, because its own writer would draw another in its place.
  enum class End { kept, redrawn };

  /// Stores the descriptors without owning them. `may_erase`: a terminal accepts control sequences.
  Console(int out_fd, int error_fd, bool may_erase);

  /// Writes `text`, a line with its terminator or a part of one; drops it if the stream is broken. On a
  /// terminal no line mixes two writers, and the launcher's own lines never begin within another. Otherwise
  /// nothing is added.
  void write(Stream stream, std::string_view text, Writer writer = kLauncher, End end = End::kept);
  bool is_terminal(Stream stream) const { return queue_of(stream).is_terminal; }
  /// True if the last text written is a part of a line of `writer`.
  bool is_in_line_of(Stream stream, Writer writer) const;
  /// Called when the user has typed a line at the terminal: its echo has ended an unfinished line.
  void take_typed_line();
  /// Sets lines that stay below the text on a terminal, the second stream, until others replace them; none:
  /// removes them.
  void pin(std::vector<std::string> lines);
  /// True if standard output and standard error are one file.
  bool is_one() const { return shared_; }
  /// True if so much is waiting that the writer of this stream should stop for now.
  bool is_full(Stream stream) const;
  bool is_drained() const;

  /// Adds to the caller's poll one entry for each queue that has been used, with POLLOUT while text is
  /// waiting.
  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const pollfd& entry);

  /// Drops waiting text. Returns its number of bytes.
  std::size_t abandon();

  /// True if stdout no longer has a reader.
  bool stdout_is_closed() const { return queues_[0].closed; }
  /// Returns the error of a failed write, once; empty if there was none.
  std::string take_error();

 private:
  /// `returned`: the line ended with \r only, and a terminal still shows it.
  enum class Line { ended, unfinished, redrawn, returned };
  struct Queue {
    Queue() = default;
    Queue(int borrowed, mode_t mode);

    Fd own;  // empty: the given file cannot be opened again
    int fd = -1;
    bool is_file = false;  // a write never blocks for long, whatever its size
    bool is_socket = false;
    bool is_terminal = false;
    bool closed = false;  // no reader
    bool failed = false;  // cannot be written for another reason
    std::string waiting;
    std::size_t written = 0;  // bytes of `waiting`
    bool in_line = false;     // the written text ends within a line
    bool is_torn = false;     // and the rest of that line was dropped
    Line line = Line::ended;  // the state of the last line, written or waiting
    Writer line_of = kLauncher;
    bool used = false;  // there has been text for it: from then on it matters whether it has a reader
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
  std::size_t drawn_ = 0;  // pinned lines that are now the last of the terminal
  std::string error_;
};

}  // namespace dabke::launcher
