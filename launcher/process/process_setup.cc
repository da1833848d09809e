#include "launcher/process/process_setup.h"

#include <sys/resource.h>
#include <sys/signalfd.h>

#include <csignal>
#include <fstream>

#include <fmt/format.h>

namespace dabke::launcher {
namespace {

sigset_t set_of(std::span<const int> signals) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : signals) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

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
  set(SIGPIPE, SIG_IGN);  // both are then errors of write(), which are reported
  set(SIGXFSZ, SIG_IGN);
  set(SIGCHLD, SIG_DFL);  // if it were ignored, the end of a child would go unnoticed
  const sigset_t forwarded = set_of(kForwardedSignals);
  ::sigprocmask(SIG_BLOCK, &forwarded, nullptr);
  ::getrlimit(RLIMIT_NOFILE, &inherited.open_files);
  rlimit raised = inherited.open_files;
  raised.rlim_cur =
      // Each rank takes three descriptors here, and one for each request to the store.
      raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return inherited;
}

std::vector<int> job_signals() {
  std::vector<int> signals{SIGINT, SIGTERM, SIGHUP};
  signals.insert(signals.end(), kForwardedSignals.begin(), kForwardedSignals.end());
  return signals;
}

Fd route_signals(std::span<const int> signals) {
  const sigset_t set = set_of(signals);
  Fd routed(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (routed) ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return routed;
}

SignalSender sender_of(const signalfd_siginfo& info) {
  if (info.ssi_code > 0) return {0, "the terminal or the kernel"};
  if (info.ssi_pid == 0) return {0, "a process outside of this container", true};
  std::string name;
  std::ifstream comm(fmt::format("/proc/{}/comm", info.ssi_pid));
  std::getline(comm, name);
  return {info.ssi_pid,
          name.empty() ? fmt::format("pid {}", info.ssi_pid) : fmt::format("pid {} ({})", info.ssi_pid, name),
          name == "slurmstepd"};
}

void restore_process(const InheritedState& inherited) {
  ::setrlimit(RLIMIT_NOFILE, &inherited.open_files);
  for (const auto& [signal, action] : inherited.dispositions) ::sigaction(signal, &action, nullptr);
  ::sigprocmask(SIG_SETMASK, &inherited.signal_mask, nullptr);
}

}  // namespace dabke::launcher
