// DABKE_DUMP_SIGNAL: the ranks write dumps when they receive a signal that the user has chosen.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::diagnosis {

class DumpSignal {
 public:
  /// Handles `signal` ("USR1", "SIGUSR1" or a number) from now on. Each time it calls
  /// `on_signal` with the signal's name, on a thread of its own. It is an error if the signal
  /// may not be used (runtime/base/threads/dump_signals.h), or if the application or another
  /// runtime of this process handles it.
  static Result<std::unique_ptr<DumpSignal>> open(const std::string& signal,
                                                  std::function<void(const std::string& name)> on_signal);
  /// Restores the default action of the signal.
  ~DumpSignal();

  DumpSignal(const DumpSignal&) = delete;
  DumpSignal& operator=(const DumpSignal&) = delete;

 private:
  DumpSignal(int signal, Fd event) : signal_(signal), event_(std::move(event)) {}

  const int signal_;
  const Fd event_;
  std::jthread thread_;
};

}  // namespace dabke::diagnosis
