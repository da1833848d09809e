#include "launcher/process/descriptors.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <algorithm>

namespace dabke::launcher {

void close_descriptors(unsigned first, unsigned last) {
  if (first > last || ::close_range(first, last, 0) == 0) return;
  const unsigned limit = std::min(last, static_cast<unsigned>(::sysconf(_SC_OPEN_MAX)));
  for (unsigned fd = first; fd <= limit; ++fd) ::close(static_cast<int>(fd));
}

void close_all_but(std::vector<int> kept) {
  std::ranges::sort(kept);
  unsigned next = 3;
  for (const int fd : kept) {
    if (fd < 3) continue;
    if (static_cast<unsigned>(fd) > next) close_descriptors(next, static_cast<unsigned>(fd) - 1);
    next = static_cast<unsigned>(fd) + 1;
  }
  close_descriptors(next, ~0U);
}

bool stand_in_null(std::initializer_list<int> targets) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return false;
  for (const int fd : targets) ::dup2(null, fd);
  if (null > 2) ::close(null);
  return true;
}

}  // namespace dabke::launcher
