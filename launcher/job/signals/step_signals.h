// Which of the signals that dabkerun's processes are sent are one and the same.
//
// A batch system signals every process of a step: the launcher may be sent the signal, and so may each agent,
// which passes it on to the launcher. Together they are one signal for the ranks. A process that is sent the
// same signal again was sent another one.
#pragma once

#include <map>
#include <string>

#include "launcher/process/process_setup.h"
#include "runtime/base/clock.h"

namespace dabke::launcher {

class StepSignals {
 public:
  /// Counts a signal that `sender` has sent to `process`, which is on `host` (empty: this one). Whether it is
  /// another one for the ranks. Signals of one sender, or of the batch system, belong together until none has
  /// come for kQuiet.
  bool is_another(int signal, const void* process, const std::string& host, const SignalSender& sender,
                  TimePoint now);

  static constexpr Duration kQuiet = std::chrono::seconds(3);  // hosts are reached one after the other

 private:
  struct Series {
    std::string origin;
    TimePoint until{};
    std::map<const void*, int> counts;  // by process
    int largest = 0;                    // of them: so many the ranks get
  };
  std::map<int, Series> series_;  // the last of each signal
};

}  // namespace dabke::launcher
