#include "launcher/output/open_again.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <string>

namespace dabke::launcher {
namespace {

/// True for a terminal. The other end of a pseudo-terminal also counts as one for isatty(), but opening it
/// would make a new one.
bool is_terminal(int fd) {
  unsigned number = 0;
  return ::isatty(fd) != 0 && ::ioctl(fd, TIOCGPTN, &number) != 0;
}

bool is_pipe(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode);
}

}  // namespace

Fd open_again(int fd, int access) {
  const int flags = access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  if (is_terminal(fd)) {
    // A user who came by su may use the terminal, but not open it by its name; /dev/tty is open to every
    // user.
    const bool is_ours = ::tcgetsid(fd) == ::getsid(0);
    Fd terminal(is_ours ? ::open("/dev/tty", flags) : -1);
    if (terminal) return terminal;
  } else if (!is_pipe(fd)) {
    return Fd();
  }
  return Fd(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), flags));
}

}  // namespace dabke::launcher
