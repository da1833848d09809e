// Libraries that are loaded or started for the application must not take its signals.
#pragma once

#include <signal.h>

#include <array>
#include <cstddef>

namespace dabke {

/// Every standard signal is handled at its end as at its beginning. UCX and Open MPI install handlers of their own
/// when they are loaded or initialised, which print a stack when the process crashes, and one for SIGHUP; an
/// application that has not asked for MPI has not asked for those.
///
/// Real-time signals are left alone. Another thread may begin to take stacks meanwhile (native_stacks.h): without
/// its handler the signal that it sends would end the process.
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
      // What has not changed is not written: another thread may be setting it meanwhile.
      if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != actions_[at(signal)].sa_handler)
        (void)::sigaction(signal, &actions_[at(signal)], nullptr);
    }
  }
  SignalKeeper(const SignalKeeper&) = delete;
  SignalKeeper& operator=(const SignalKeeper&) = delete;

 private:
  static constexpr int kSignals = 32;  // the standard ones are those below
  static std::size_t at(int signal) { return static_cast<std::size_t>(signal); }

  std::array<struct sigaction, kSignals> actions_{};
  std::array<bool, kSignals> known_{};
};

}  // namespace dabke
