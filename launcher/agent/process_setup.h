// What dabkerun changes about its own process, as launcher and as agent.
#pragma once

#include <vector>

#include "launcher/agent/supervisor.h"

namespace dabke {

/// Takes note of what the ranks are to get back, and changes it for this process.
InheritedState prepare_process();

/// Gives it back, before another program takes the place of this one.
void restore_process(const InheritedState& inherited);

/// The cores that this process may run on.
std::vector<int> usable_cores();

}  // namespace dabke
