#include "launcher/process/output_ends.h"

#include <fcntl.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace dabke::launcher {
namespace {

Result<OutputPipe> make_terminal() {
  const auto failed = [] { return system_error("cannot make a pseudo-terminal for a rank's stdout", errno); };
  Fd ours(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 64> path;
  if (!ours || ::grantpt(ours.get()) != 0 || ::unlockpt(ours.get()) != 0) return failed();
  if (const int error = ::ptsname_r(ours.get(), path.data(), path.size()); error != 0) {
    errno = error;
    return failed();
  }
  // Opened write-only: no user types there, so a program that reads it would wait for ever.
  Fd theirs(::open(path.data(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  termios modes{};
  if (!theirs || ::tcgetattr(theirs.get(), &modes) != 0) return failed();
  ::cfmakeraw(&modes);
  if (::tcsetattr(theirs.get(), TCSANOW, &modes) != 0) return failed();
  return OutputPipe{std::move(ours), std::move(theirs)};
}

}  // namespace

Result<OutputPipe> make_output_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("cannot make a pipe for a rank's output", errno);
  OutputPipe pipe{Fd(ends[0]), Fd(ends[1])};
  // Only this end: the flag belongs to this end's open file, and the rank's end has another.
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return pipe;
}

Result<OutputPipe> make_stdout(StdoutKind kind) {
  if (kind == StdoutKind::pipe) return make_output_pipe();
  auto made = make_terminal();
  return made.is_ok() || kind == StdoutKind::terminal ? std::move(made) : make_output_pipe();
}

void resize(int read_end, TerminalSize size) {
  winsize window{};
  window.ws_row = static_cast<unsigned short>(size.rows);
  window.ws_col = static_cast<unsigned short>(size.columns);
  (void)::ioctl(read_end, TIOCSWINSZ, &window);
}

}  // namespace dabke::launcher
