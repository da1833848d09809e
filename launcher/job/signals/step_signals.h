// Recognises signals to several of dabkerun's processes that are one and the same.
//
// A batch system signals every process of a step. So the launcher may receive the signal, and so may each
// agent, which passes it on to the launcher. Together they are one signal for the ranks. If a process
// receives the same signal again, that is another one.
#pragma once

#include <map>
#include <string>

#include "launcher/process/process_setup.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {

class StepSignals {
 public:
  /// Counts a signal that `sender` has sent to `process` on `host` (empty: this host). True if it is another
  /// one for the ranks. Signals of one sender, or of the batch system, belong together until there has been
  /// none for kQuiet.
  bool is_another(int signal, const void* process, const std::string& host, const SignalSender& sender,
                  TimePoint now);

  static constexpr Duration kQuiet = std::chrono::seconds(3);  // hosts are reached one after the other

 private:
  struct Series {
    std::string origin;
    TimePoint until{};
    std::map<const void*, int> counts;  // by process
    int largest = 0;                    // the largest count: the number that the ranks get
  };
  std::map<int, Series> series_;  // the last of each signal
};

}  // namespace dabke::launcher
