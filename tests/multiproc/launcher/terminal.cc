#include "tests/multiproc/launcher/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <stdexcept>

#include "runtime/base/clock.h"

namespace dabke::test {

Terminal::Terminal() : end_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
  std::array<char, 64> name;
  if (!end_ || ::grantpt(end_.get()) != 0 || ::unlockpt(end_.get()) != 0 ||
      ::ptsname_r(end_.get(), name.data(), name.size()) != 0)
    throw std::runtime_error("posix_openpt");
  path_ = name.data();
}

void Terminal::type(const std::string& text) const {
  if (::write(end_.get(), text.data(), text.size()) < 0) throw std::runtime_error("write");
}

void Terminal::resize(int rows, int columns) const {
  winsize size{};
  size.ws_row = static_cast<unsigned short>(rows);
  size.ws_col = static_cast<unsigned short>(columns);
  if (::ioctl(end_.get(), TIOCSWINSZ, &size) != 0) throw std::runtime_error("TIOCSWINSZ");
}

bool Terminal::wait_for(const std::string& text) {
  const TimePoint deadline = Clock::now() + std::chrono::seconds(180);
  while (shown_.find(text) == std::string::npos) {
    pollfd entry{end_.get(), POLLIN, 0};
    if (::poll(&entry, 1, poll_timeout_ms(deadline)) <= 0) return false;
    std::array<char, 4096> chunk;
    const ssize_t got = ::read(end_.get(), chunk.data(), chunk.size());
    if (got <= 0) return false;
    shown_.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace dabke::test
