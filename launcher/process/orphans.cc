#include "launcher/process/orphans.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/process/process_tree.h"

namespace dabke::launcher {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstPause = 20ms;
constexpr Duration kLongestPause = 500ms;
/// What SIGKILL has not ended by then hangs in the kernel.
constexpr auto kLimit = 5s;

}  // namespace

Orphans::Orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

void Orphans::seek() {
  due_ = Clock::now();
  limit_.reset();
  pause_ = kFirstPause;
  was_empty_ = false;
}

std::size_t Orphans::kill(const std::vector<pid_t>& supervisors_left) {
  const std::vector<pid_t> found = descendants_of(::getpid(), supervisors_left);
  for (const pid_t pid : found) ::kill(pid, SIGKILL);
  const TimePoint now = Clock::now();
  due_.reset();
  if (limit_ && now >= *limit_) return found.size();
  if (!limit_) limit_ = now + kLimit;
  // A reading misses whom a process that it has not come to has made under a number behind it, and outlives: none has
  // been found when two have found none.
  const bool was_empty = std::exchange(was_empty_, found.empty());
  if (!was_empty || !found.empty()) due_ = now + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);  // what forks faster than this meets the next round
  return 0;
}

}  // namespace dabke::launcher
