#include "launcher/agent/process_setup.h"

#include <sys/resource.h>

#include <csignal>

namespace dabke {

InheritedState prepare_process() {
  InheritedState inherited;
  ::sigprocmask(SIG_SETMASK, nullptr, &inherited.signal_mask);
  const auto set = [&](int signal, sighandler_t handler) {
    InheritedState::Disposition& before = inherited.dispositions.emplace_back();
    struct sigaction action {};
    action.sa_handler = handler;
    before.signal = signal;
    ::sigaction(signal, &action, &before.action);
  };
  set(SIGPIPE, SIG_IGN);  // both are errors of write() then, which are told
  set(SIGXFSZ, SIG_IGN);
  set(SIGCHLD, SIG_DFL);  // ignored, nobody would learn of the end of any child
  ::getrlimit(RLIMIT_NOFILE, &inherited.open_files);
  rlimit raised = inherited.open_files;
  raised.rlim_cur =
      raised.rlim_max;  // a rank takes three descriptors here, and one for each request to the store
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return inherited;
}

void restore_process(const InheritedState& inherited) {
  ::setrlimit(RLIMIT_NOFILE, &inherited.open_files);
  for (const auto& [signal, action] : inherited.dispositions) ::sigaction(signal, &action, nullptr);
  ::sigprocmask(SIG_SETMASK, &inherited.signal_mask, nullptr);
}

}  // namespace dabke
