#include "launcher/job/orphans.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "launcher/job/process_tree.h"

namespace dabke {
namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstPause = 20ms;
constexpr Duration kLongestPause = 500ms;
/// What SIGKILL has not ended by then hangs in the kernel.
constexpr auto kLimit = 5s;

}  // namespace

Orphans::Orphans(const std::string& job_id) : variable_("DABKE_JOB_ID=" + job_id) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void Orphans::take(pid_t supervisor) {
  lost_.push_back(supervisor);
  due_ = Clock::now();
  limit_ = *due_ + kLimit;
  pause_ = kFirstPause;
}

std::size_t Orphans::kill(const std::vector<pid_t>& supervisors_left) {
  const std::vector<pid_t> found = find(supervisors_left);
  for (const pid_t pid : found) ::kill(pid, SIGKILL);
  const TimePoint now = Clock::now();
  due_.reset();
  if (now >= limit_) return found.size();
  if (!found.empty()) due_ = now + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);  // what forks faster than this meets the next round
  return 0;
}

/// Not every child is one: a shell that became dabkerun by exec may have had children, and in a container
/// dabkerun may be process 1. So each is in the session of a supervisor, or tells in its environment whose it
/// is.
std::vector<pid_t> Orphans::find(const std::vector<pid_t>& supervisors_left) const {
  std::vector<pid_t> found = descendants_of(::getpid(), supervisors_left);
  std::erase_if(found, [this](pid_t pid) {
    return std::ranges::find(lost_, ::getsid(pid)) == lost_.end() && !has_variable(pid, variable_);
  });
  return found;
}

}  // namespace dabke
