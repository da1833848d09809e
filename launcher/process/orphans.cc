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
/// A process that SIGKILL has not ended by then hangs in the kernel.
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
  // Two readings in a row must find none. A single reading can miss a process whose number is behind the
  // reading position, while its parent has not been read yet and ends.
  const bool was_empty = std::exchange(was_empty_, found.empty());
  if (!was_empty || !found.empty()) due_ = now + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);  // processes that fork faster meet the next round
  return 0;
}

}  // namespace dabke::launcher
