// The signals that may make the ranks write dumps.
#pragma once

#include <string_view>

namespace dabke {

/// Those that mean nothing to the kernel, to a shell's job control or to the end of a job, as a user is told
/// them.
inline constexpr std::string_view kDumpSignals =
    "one of USR1 USR2 HUP QUIT ALRM VTALRM PROF XCPU URG WINCH PWR, or its number";

/// The signal that "USR1", "SIGUSR1" or its number stands for; 0: none of these.
int dump_signal_number(std::string_view text);

}  // namespace dabke
