#include "launcher/job/signals/terminal_input.h"

#include <fcntl.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "launcher/output/open_again.h"

namespace dabke::launcher {
namespace {

/// The interval of the checks while there is input that dabkerun must not read. The kernel does not notify a
/// process that comes to the foreground.
constexpr auto kBackgroundPause = std::chrono::milliseconds(250);

/// Reads like read(), but fails with EIO in the background, where SIGTTIN would stop dabkerun.
ssize_t read_in_foreground(int terminal, char* bytes, std::size_t size) {
  sigset_t stop, before;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTTIN);
  ::pthread_sigmask(SIG_BLOCK, &stop, &before);
  const ssize_t got = ::read(terminal, bytes, size);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return got;
}

/// True if no shell can bring dabkerun to the foreground, as far as one process can find out.
bool is_left_alone() { return ::getsid(::getppid()) != ::getsid(0); }

bool echoes_newlines(int terminal) {
  termios modes{};
  return ::tcgetattr(terminal, &modes) == 0 && (modes.c_lflag & (ECHO | ECHONL)) != 0;
}

}  // namespace

bool TerminalInput::can_read(int terminal) {
  if (::tcgetsid(terminal) != ::getsid(0)) return false;
  return ::tcgetpgrp(terminal) == ::getpgrp() || !is_left_alone();
}

Result<std::unique_ptr<TerminalInput>> TerminalInput::open(int terminal) {
  Fd own = open_again(terminal, O_RDONLY);
  int ends[2];
  if (!own || ::pipe2(ends, O_CLOEXEC) != 0)
    return system_error("cannot pass the terminal's input to rank 0", errno);
  Fd rank_end(ends[0]), pipe(ends[1]);
  // A pipe with room for one write has room again when that has been taken.
  ::fcntl(pipe.get(), F_SETPIPE_SZ, 1);
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  return std::unique_ptr<TerminalInput>(
      new TerminalInput(std::move(own), std::move(rank_end), std::move(pipe)));
}

void TerminalInput::add_poll_entries(std::vector<pollfd>& entries) {
  if (!pipe_) return;
  entries.push_back({pipe_.get(), static_cast<short>(is_taken_ ? 0 : POLLOUT), 0});
  if (looks_again_at_ <= Clock::now()) looks_again_at_ = kNever;
  if (is_taken_ && looks_again_at_ == kNever) entries.push_back({terminal_.get(), POLLIN, 0});
}

void TerminalInput::handle(const pollfd& entry) {
  if (!pipe_ || entry.revents == 0) return;
  if (entry.fd == terminal_.get()) return read_line();
  if (entry.fd != pipe_.get()) return;
  if ((entry.revents & POLLERR) != 0) return close();  // the reader is gone
  is_taken_ = true;
}

void TerminalInput::read_line() {
  std::array<char, 4096> line;  // the longest line of a terminal, which fits into any empty pipe
  const ssize_t got = read_in_foreground(terminal_.get(), line.data(), line.size());
  if (got > 0) {
    is_taken_ = false;
    has_echoed_line_ = line[static_cast<std::size_t>(got) - 1] == '\n' && echoes_newlines(terminal_.get());
    (void)!::write(pipe_.get(), line.data(), static_cast<std::size_t>(got));
  } else if (got < 0 && errno == EIO && !is_left_alone()) {
    looks_again_at_ = Clock::now() + kBackgroundPause;
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    close();  // Ctrl-D, or the terminal is gone
  }
}

void TerminalInput::close() {
  pipe_ = Fd();
  terminal_ = Fd();
  looks_again_at_ = kNever;
}

}  // namespace dabke::launcher
