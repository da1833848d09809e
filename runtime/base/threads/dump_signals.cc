#include "runtime/base/threads/dump_signals.h"

#include <signal.h>
#include <string.h>

#include <string>

namespace dabke {

int dump_signal_number(std::string_view text) {
  if (text.starts_with("SIG")) text.remove_prefix(3);
  for (const int number :
       {SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGURG, SIGWINCH, SIGPWR}) {
    if (text == ::sigabbrev_np(number) || text == std::to_string(number)) return number;
  }
  return 0;
}

}  // namespace dabke
