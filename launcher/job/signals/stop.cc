#include "launcher/job/signals/stop.h"

#include <signal.h>
#include <unistd.h>

#include <ctime>

namespace dabke::launcher {

void stop_this_process() {
  // Not SIGSTOP: in a process group that no shell looks after, the kernel lets this one pass, since nobody
  // would continue us.
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::kill(::getpid(), SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // here it stops
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  // The caller lets the ranks go on, also where nothing has let this process go on.
  sigset_t go_on;
  ::sigemptyset(&go_on);
  ::sigaddset(&go_on, SIGCONT);
  const timespec at_once{};
  (void)::sigtimedwait(&go_on, nullptr, &at_once);
}

}  // namespace dabke::launcher
