// Writes whole lines to dabkerun's own stdout and stderr without ever blocking the launcher.
//
// The launcher's files are not those it was given: O_NONBLOCK belongs to the open file, which the calling
// shell and everybody else at the terminal use, too. So what can be opened again is (launcher/job/open_again.h),
// and a socket is asked at each call.
#pragma once

#include <poll.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/owned.h"

namespace dabke {

/// Lines wait in memory until there is room, so a pager that is not read or a terminal stopped with Ctrl-S
/// holds up the output and not the launcher: signals and dying ranks are still handled. When both descriptors
/// are one file (2>&1), both streams share one queue, or a line of one would tear a line of the other.
class Console {
 public:
  enum class Stream { out, error };

  /// Borrows the descriptors.
  Console(int out_fd, int error_fd);

  /// `line` ends with its terminator. Dropped when the stream is broken.
  void write(Stream stream, std::string_view line);
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
  struct Queue {
    Queue() = default;
    Queue(int borrowed, mode_t mode);

    Fd own;  // empty: what was borrowed cannot be opened again
    int fd = -1;
    bool is_file = false;  // a write never blocks for long, whatever its size
    bool is_socket = false;
    bool closed = false;  // nobody reads
    bool failed = false;  // cannot be written for another reason
    std::string waiting;
    std::size_t written = 0;  // how much of `waiting`
    bool in_line = false;     // what has been written ends within a line
    bool is_torn = false;     // and the rest of that was dropped
    bool used = false;        // something has been for it: whether anybody reads it matters from then on
  };

  void draw_pinned();
  void erase_pinned(Queue& queue);

  const Queue& queue_of(Stream stream) const { return queues_[stream == Stream::error && !shared_ ? 1 : 0]; }
  Queue& queue_of(Stream stream) { return queues_[stream == Stream::error && !shared_ ? 1 : 0]; }
  void write_some(Queue& queue);
  static void drop(Queue& queue);

  Queue queues_[2];
  bool shared_ = false;
  std::vector<std::string> pinned_;
  std::size_t drawn_ = 0;  // lines of it, which are the last of the terminal
  std::string error_;
};

}  // namespace dabke
