// What dabkerun changes about its own process, as launcher and as agent.
#pragma once

#include "launcher/agent/supervisor.h"

namespace dabke {

/// Takes note of what the ranks are to get back, and changes it for this process.
InheritedState prepare_process();

/// Gives it back, before another program takes the place of this one.
void restore_process(const InheritedState& inherited);

}  // namespace dabke
