#include "launcher/job/signals/stop.h"

#include <signal.h>
#include <unistd.h>

#include <ctime>

namespace dabke::launcher {

void stop_this_process() {
  // SIGTSTP, not SIGSTOP: in an orphaned process group the kernel ignores SIGTSTP, because no shell would
  // continue this process.
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::kill(::getpid(), SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // here it stops
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  // The caller continues the ranks, even if this process did not stop and got no SIGCONT.
  sigset_t go_on;
  ::sigemptyset(&go_on);
  ::sigaddset(&go_on, SIGCONT);
  const timespec at_once{};
  (void)::sigtimedwait(&go_on, nullptr, &at_once);
}

}  // namespace dabke::launcher
