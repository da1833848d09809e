#include "runtime/base/threads/thread.h"

#include <sys/resource.h>

#include <fstream>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace dabke {
namespace {

std::string limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "no limit";
  return std::to_string(limit.rlim_cur);
}

/// A line of /proc/self/cgroup is "0::/path", or "7:pids:/path" where there are several hierarchies.
std::string processes_of_control_group() {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto controllers = line.find(':');
    const auto path = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path == std::string::npos) continue;
    const std::string which = line.substr(controllers + 1, path - controllers - 1);
    if (!which.empty() && which != "pids") continue;
    std::ifstream file("/sys/fs/cgroup" + (which.empty() ? "" : "/" + which) + line.substr(path + 1) +
                       "/pids.max");
    if (std::string limit; file >> limit) return limit;
  }
  return "unknown";
}

}  // namespace

Status cannot_start_thread(const char* name, const std::exception& error) {
  const auto* const refused = dynamic_cast<const std::system_error*>(&error);
  if (refused == nullptr) return {Code::out_of_memory, fmt::format("no memory to start thread '{}'", name)};
  return {Code::transport,
          fmt::format("cannot start thread '{}': {}; change the limit that was reached. The user's processes "
                      "and threads: {} (RLIMIT_NPROC, ulimit -u), the control group's: {} (pids.max), "
                      "address space: {} bytes (ulimit -v), of which a thread's stack takes {} (ulimit -s)",
                      name, refused->code().message(), limit_of(RLIMIT_NPROC), processes_of_control_group(),
                      limit_of(RLIMIT_AS), limit_of(RLIMIT_STACK))};
}

}  // namespace dabke
