#include "launcher/process/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/base/threads/owned.h"

namespace dabke::launcher {
namespace {

struct Stat {
  pid_t parent = 0;
  bool is_zombie = false;
  bool is_ending = false;
  ProcessMoment moment;
};

// The kernel's flags (include/linux/sched.h), field 9 of proc(5).
constexpr unsigned long kExiting = 0x4;
constexpr unsigned long kDumpingCore = 0x200;
constexpr unsigned long kSignalled = 0x400;

/// Returns the number in field `field` of the text. The first field of the text is the state, field 3 of
/// proc(5).
unsigned long number_in(std::string_view text, int field) {
  for (int i = 3; i < field; ++i) {
    const auto space = text.find(' ');
    if (space == std::string_view::npos) return 0;
    text.remove_prefix(space + 1);
  }
  unsigned long number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Reads "<pid> (<name>) <state> <parent> ..."; the name may contain any characters, so the last ')' ends it.
bool read_stat(const char* pid, Stat& stat) {
  const std::string path = std::string("/proc/") + pid + "/stat";
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[1024];
  const ssize_t got = fd ? ::read(fd.get(), buffer, sizeof buffer) : -1;
  if (got <= 0) return false;
  std::string_view text(buffer, static_cast<std::size_t>(got));
  const auto name_end = text.rfind(')');
  if (name_end == std::string_view::npos || text.size() < name_end + 5) return false;
  text.remove_prefix(name_end + 2);
  stat.is_zombie = text[0] == 'Z' || text[0] == 'X';
  stat.parent = static_cast<pid_t>(number_in(text, 4));
  // After a fatal signal, or exit() in another thread, each thread has a pending SIGKILL until it notices.
  const bool is_to_die = (number_in(text, 31) >> (SIGKILL - 1) & 1) != 0;
  stat.is_ending =
      stat.is_zombie || is_to_die || (number_in(text, 9) & (kExiting | kDumpingCore | kSignalled)) != 0;
  stat.moment = {.is_stopped = text[0] == 'T',
                 .start_time = number_in(text, 22),
                 .running_time = number_in(text, 14) + number_in(text, 15)};
  return true;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t ancestor, const std::vector<pid_t>& except) {
  struct Child {
    pid_t pid;
    bool is_zombie;
  };
  std::unordered_map<pid_t, std::vector<Child>> children;
  const auto close = [](DIR* directory) { ::closedir(directory); };
  const std::unique_ptr<DIR, decltype(close)> proc(::opendir("/proc"), close);
  if (!proc) return {};
  while (const dirent* entry = ::readdir(proc.get())) {
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    Stat stat;
    if (std::from_chars(entry->d_name, end, pid).ptr != end || !read_stat(entry->d_name, stat)) continue;
    children[stat.parent].push_back({pid, stat.is_zombie});
  }
  std::vector<pid_t> found;
  std::vector<pid_t> to_visit{ancestor};
  while (!to_visit.empty()) {
    const pid_t parent = to_visit.back();
    to_visit.pop_back();
    const auto at = children.find(parent);
    if (at == children.end()) continue;
    for (const Child child : at->second) {
      if (std::ranges::find(except, child.pid) != except.end()) continue;
      if (!child.is_zombie) found.push_back(child.pid);
      to_visit.push_back(child.pid);  // a zombie leader may still have threads with live children
    }
    children.erase(at);  // a reused pid that is its own ancestor must not make a circle
  }
  return found;
}

bool is_ending(pid_t pid) {
  Stat stat;
  return read_stat(std::to_string(pid).c_str(), stat) && stat.is_ending;
}

std::optional<ProcessMoment> moment_of(pid_t pid) {
  Stat stat;
  if (!read_stat(std::to_string(pid).c_str(), stat)) return std::nullopt;
  return stat.moment;
}

}  // namespace dabke::launcher
