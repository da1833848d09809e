#include "runtime/links/process_identity.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "runtime/base/hmac.h"

namespace dabke::links {

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

std::string to_text(const ProcessIdentity& process) {
  return fmt::format("{}.{}.{}", to_hex(process.boot_id), process.pid_namespace, process.pid);
}

ProcessIdentity parse_process(std::string_view text) {
  const auto number = [](std::string_view digits, auto& value) {
    const char* const last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, value);
    return error == std::errc() && end == last;
  };
  ProcessIdentity process;
  const auto first = text.find('.'), second = text.rfind('.');
  if (first == std::string_view::npos || first == second) return {};
  const bool is_whole = from_hex(text.substr(0, first), process.boot_id).is_ok() &&
                        number(text.substr(first + 1, second - first - 1), process.pid_namespace) &&
                        number(text.substr(second + 1), process.pid);
  return is_whole ? process : ProcessIdentity();
}

bool has_ended(std::uint32_t pid) {
  if (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return true;
  const auto watched = watch_process(pid);
  if (!watched.is_ok()) return watched.status().code() == Code::peer_lost;
  pollfd entry{watched->get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

Result<Fd> watch_process(std::uint32_t pid) {
  // glibc has a wrapper from 2.36 on. The descriptor is CLOEXEC from the start.
  const long fd = ::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0u);
  if (fd >= 0) return Fd(static_cast<int>(fd));
  if (errno == ESRCH) return Status(Code::peer_lost, fmt::format("process {} has ended", pid));
  return system_error(fmt::format("pidfd_open({})", pid), errno);
}

}  // namespace dabke::links
