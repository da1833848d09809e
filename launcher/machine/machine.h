// The identity of this machine, whatever its name.
#pragma once

#include <string>

namespace dabke::launcher {

/// Equal for two processes with one kernel, one network and one set of process ids; containers on one machine
/// share only the kernel. One word; empty if /proc does not show it.
std::string this_machine();

}  // namespace dabke::launcher
