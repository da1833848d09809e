#include "runtime/transport/process_identity.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "runtime/base/hmac.h"

namespace dabke {

ProcessIdentity identity_of_this_process() {
  ProcessIdentity self;
  self.pid = static_cast<std::uint32_t>(::getpid());
  std::string text;
  if (std::ifstream file("/proc/sys/kernel/random/boot_id"); std::getline(file, text)) {
    std::erase(text, '-');
    if (!from_hex(text, self.boot_id).is_ok()) self.boot_id = {};
  }
  struct stat info {};
  if (::stat("/proc/self/ns/pid", &info) == 0) self.pid_namespace = info.st_ino;
  return self;
}

Result<Fd> watch_process(std::uint32_t pid) {
  // glibc 2.36 has a wrapper; older ones do not. The descriptor is CLOEXEC from the start.
  const long fd = ::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0u);
  if (fd >= 0) return Fd(static_cast<int>(fd));
  if (errno == ESRCH) return Status(Code::peer_lost, fmt::format("process {} has ended", pid));
  return system_error(fmt::format("pidfd_open({})", pid), errno);
}

}  // namespace dabke
