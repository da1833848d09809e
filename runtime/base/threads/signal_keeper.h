// Keeps the application's signal handlers while a library is loaded or started.
#pragma once

#include <signal.h>

#include <array>
#include <cstddef>

namespace dabke {

/// Restores the handlers of all standard signals at its end. UCX and Open MPI install handlers when they are
/// loaded or initialised: some print a stack when the process crashes, and one is for SIGHUP. An application
/// that has not asked for MPI has not asked for these.
///
/// Real-time signals are not restored. Another thread may begin to take stacks meanwhile (native_stacks.h),
/// and without its handler the signal that it sends would end the process.
class SignalKeeper {
 public:
  SignalKeeper() {
    for (int signal = 1; signal < kSignals; ++signal)
      known_[at(signal)] = ::sigaction(signal, nullptr, &actions_[at(signal)]) == 0;
  }
  ~SignalKeeper() {
    for (int signal = 1; signal < kSignals; ++signal) {
      if (!known_[at(signal)] || signal == SIGKILL || signal == SIGSTOP) continue;
      struct sigaction now {};
      // A handler that has not changed is not written, because another thread may be setting it.
      if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != actions_[at(signal)].sa_handler)
        (void)::sigaction(signal, &actions_[at(signal)], nullptr);
    }
  }
  SignalKeeper(const SignalKeeper&) = delete;
  SignalKeeper& operator=(const SignalKeeper&) = delete;

 private:
  static constexpr int kSignals = 32;  // standard signals are below this number
  static std::size_t at(int signal) { return static_cast<std::size_t>(signal); }

  std::array<struct sigaction, kSignals> actions_{};
  std::array<bool, kSignals> known_{};
};

}  // namespace dabke
