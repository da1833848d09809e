// Which signals may make the ranks write dumps.
#pragma once

#include <string_view>

namespace dabke {

/// Those that mean nothing to the kernel, to a shell's job control or to the end of a job, as a user is told
/// them.
inline constexpr std::string_view kDumpSignals =
    "one of USR1 USR2 HUP QUIT ALRM VTALRM PROF XCPU URG WINCH PWR, or its number";

/// Of "USR1", "SIGUSR1" or its number; 0: that is none of them.
int dump_signal_number(std::string_view text);

}  // namespace dabke
