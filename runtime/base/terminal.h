#pragma once

#include <sys/ioctl.h>

#include <cstddef>

namespace dabke {

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

/// The size of the terminal, or the usual 80 by 24 if `fd` does not report one.
inline TerminalSize terminal_size(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col < 2 || size.ws_row < 2) return {};
  return {size.ws_col, size.ws_row};
}

}  // namespace dabke
