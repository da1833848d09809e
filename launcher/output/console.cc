#include "launcher/output/console.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "launcher/output/open_again.h"

namespace dabke::launcher {
namespace {

constexpr std::size_t kFull = std::size_t{1} << 20;
constexpr Console::Writer kPinned = -1;

struct stat stat_of(int fd) {
  struct stat info {};
  ::fstat(fd, &info);
  return info;
}

}  // namespace

Console::Queue::Queue(int borrowed, mode_t mode)
    : own(open_again(borrowed, O_WRONLY)),
      fd(own ? own.get() : borrowed),
      is_file(S_ISREG(mode)),
      is_socket(S_ISSOCK(mode)),
      is_terminal(::isatty(fd) == 1) {}

Console::Console(int out_fd, int error_fd, bool may_erase) : may_erase_(may_erase) {
  const struct stat out = stat_of(out_fd);
  const struct stat error = stat_of(error_fd);
  shared_ = out.st_dev == error.st_dev && out.st_ino == error.st_ino;
  queues_[0] = Queue(out_fd, out.st_mode);
  queues_[1] = Queue(error_fd, error.st_mode);
}

void Console::write(Stream stream, std::string_view text, Writer writer, End end) {
  Queue& queue = queue_of(stream);
  if (queue.closed || queue.failed || text.empty()) return;
  if (std::exchange(queue.is_torn, false)) queue.waiting += '\n';
  if (&queue == &queue_of(Stream::error)) erase_pinned(queue);
  if (queue.line_of != writer) leave_line(queue, writer);
  queue.waiting.append(text);
  queue.used = true;
  queue.line_of = writer;
  queue.line = text.ends_with('\n')   ? Line::ended
               : text.ends_with('\r') ? Line::returned
               : end == End::redrawn  ? Line::redrawn
                                      : Line::unfinished;
}

bool Console::is_in_line_of(Stream stream, Writer writer) const {
  const Queue& queue = queue_of(stream);
  return queue.line_of == writer && (queue.line == Line::unfinished || queue.line == Line::redrawn);
}

/// Ends or removes the last line when `writer` begins one. The launcher's own lines are rare, and remove no
/// other line.
void Console::leave_line(Queue& queue, Writer writer) const {
  const Line line = std::exchange(queue.line, Line::ended);
  if (line == Line::ended || (line == Line::returned && !queue.is_terminal)) return;
  const bool is_launcher = writer == kLauncher;
  if (queue.is_terminal && may_erase_ && !is_launcher && line != Line::unfinished) {
    queue.waiting += "\r\x1b[K";
  } else if (is_launcher || (queue.is_terminal && line != Line::returned)) {
    queue.waiting += '\n';
  }
}

void Console::take_typed_line() {
  for (Queue& queue : queues_) {
    // Waiting text comes to the terminal after the echo.
    if (queue.is_terminal && queue.waiting.empty()) queue.line = Line::ended;
  }
}

void Console::pin(std::vector<std::string> lines) {
  Queue& queue = queue_of(Stream::error);
  // If the terminal is blocked, these lines are skipped, and it gets the next ones.
  if (queue.closed || queue.failed || (!queue.waiting.empty() && !lines.empty())) return;
  erase_pinned(queue);
  pinned_ = std::move(lines);
  draw_pinned();
}

void Console::draw_pinned() {
  Queue& queue = queue_of(Stream::error);
  if (!pinned_.empty()) leave_line(queue, kPinned);
  for (const std::string& line : pinned_) queue.waiting += line + "\n";
  drawn_ = pinned_.size();
  if (drawn_ > 0) queue.used = true;
}

/// Moves to the first pinned line and erases everything from there on.
void Console::erase_pinned(Queue& queue) {
  if (drawn_ > 0) queue.waiting += fmt::format("\x1b[{}A\r\x1b[J", drawn_);
  drawn_ = 0;
}

bool Console::is_full(Stream stream) const {
  const Queue& queue = queue_of(stream);
  return queue.waiting.size() - queue.written > kFull;
}

bool Console::is_drained() const {
  return std::ranges::all_of(queues_, [](const Queue& queue) { return queue.waiting.empty(); });
}

void Console::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const Queue& queue : queues_) {
    if (queue.closed || queue.failed || !queue.used) continue;
    // Without POLLOUT a pipe still reports POLLERR once its last reader is gone.
    const short events = queue.waiting.empty() ? 0 : POLLOUT;
    if (events != 0 || !queue.is_file) entries.push_back({queue.fd, events, 0});
  }
}

void Console::handle(const pollfd& entry) {
  for (Queue& queue : queues_) {
    if (queue.fd != entry.fd || queue.closed || queue.failed || entry.revents == 0) continue;
    if ((entry.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
      queue.closed = true;
      drop(queue);
    } else if (!queue.waiting.empty()) {
      write_some(queue);
      // Draws when the terminal has taken all lines, not after each of them.
      if (queue.waiting.empty() && &queue == &queue_of(Stream::error) && drawn_ == 0) draw_pinned();
    }
  }
}

void Console::write_some(Queue& queue) {
  // If the file could not be opened again, POLLOUT guarantees room for only PIPE_BUF bytes of a pipe.
  const std::size_t left = queue.waiting.size() - queue.written;
  const std::size_t count = queue.is_file ? left : std::min<std::size_t>(left, PIPE_BUF);
  const char* const bytes = queue.waiting.data() + queue.written;
  const ssize_t wrote =
      queue.is_socket ? ::send(queue.fd, bytes, count, MSG_DONTWAIT) : ::write(queue.fd, bytes, count);
  if (wrote >= 0) {
    queue.written += static_cast<std::size_t>(wrote);
    if (wrote > 0) queue.in_line = bytes[wrote - 1] != '\n';
  } else if (errno == EPIPE) {
    queue.closed = true;
  } else if (errno != EAGAIN && errno != EINTR) {
    queue.failed = true;
    error_ =
        fmt::format("cannot write to {}: {}; the rest of it is lost",
                    queue.fd == queues_[0].fd ? "stdout" : "stderr", std::generic_category().message(errno));
  }
  if (queue.written == queue.waiting.size() || queue.closed || queue.failed) {
    drop(queue);
  } else if (queue.written > kFull / 4) {
    queue.waiting.erase(0, queue.written);
    queue.written = 0;
  }
}

void Console::drop(Queue& queue) {
  queue.waiting.clear();
  queue.written = 0;
}

std::size_t Console::abandon() {
  std::size_t bytes = 0;
  for (Queue& queue : queues_) {
    if (queue.waiting.empty()) continue;
    bytes += queue.waiting.size() - queue.written;
    queue.is_torn = queue.in_line;
    queue.line = Line::ended;
    drop(queue);
  }
  return bytes;
}

std::string Console::take_error() { return std::exchange(error_, {}); }

}  // namespace dabke::launcher
