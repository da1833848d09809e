// The signals that may make the ranks write dumps.
#pragma once

#include <string_view>

namespace dabke {

/// The allowed signals, as texts for users list them. None has a meaning for the kernel, for a shell's job
/// control or for the end of a job.
inline constexpr std::string_view kDumpSignals =
    "one of USR1 USR2 HUP QUIT ALRM VTALRM PROF XCPU URG WINCH PWR, or its number";

/// The signal of the name "USR1", "SIGUSR1" or of its number; 0 if it is not in the list.
int dump_signal_number(std::string_view text);

}  // namespace dabke
