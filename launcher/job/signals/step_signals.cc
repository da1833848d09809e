#include "launcher/job/signals/step_signals.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace dabke::launcher {

bool StepSignals::is_another(int signal, const void* process, const std::string& host,
                             const SignalSender& sender, TimePoint now) {
  const std::string origin =
      sender.is_batch_system ? "the batch system" : fmt::format("{} on {}", sender.pid, host);
  Series& series = series_[signal];
  if (now >= series.until || series.origin != origin) series = {.origin = origin};
  series.until = now + kQuiet;
  const int count = ++series.counts[process];
  return std::exchange(series.largest, std::max(series.largest, count)) < count;
}

}  // namespace dabke::launcher
