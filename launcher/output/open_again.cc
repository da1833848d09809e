#include "launcher/output/open_again.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <string>

namespace dabke::launcher {
namespace {

/// The other end of a pseudo-terminal calls itself one as well, and to open that makes a new one.
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
    // Who came by su may use the terminal and not open it by its name; this name is open to everybody.
    const bool is_ours = ::tcgetsid(fd) == ::getsid(0);
    Fd terminal(is_ours ? ::open("/dev/tty", flags) : -1);
    if (terminal) return terminal;
  } else if (!is_pipe(fd)) {
    return Fd();
  }
  return Fd(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), flags));
}

}  // namespace dabke::launcher
