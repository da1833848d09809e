// DABKE_DUMP_SIGNAL: a signal of the user's choice at which the ranks write dumps.
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
  /// Handles `signal` ("USR1", "SIGUSR1" or a number) from now on, and calls `on_signal` with its name on a
  /// thread of its own at each. An error when it may not be used (runtime/base/threads/dump_signals.h), or when the
  /// application or another runtime of this process handles it.
  static Result<std::unique_ptr<DumpSignal>> open(const std::string& signal,
                                                  std::function<void(const std::string& name)> on_signal);
  /// The signal does again what it does by default.
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
