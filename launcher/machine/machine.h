// Which machine this is, whatever it is called.
#pragma once

#include <string>

namespace dabke::launcher {

/// Equal where two processes have one kernel, one network and one set of process ids: containers on one machine share
/// the first alone. One word; empty where /proc does not tell.
std::string this_machine();

}  // namespace dabke::launcher
