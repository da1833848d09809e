// The agent of this host: a fork of the launcher, connected by a pair of sockets.
#pragma once

#include <vector>

#include "launcher/agent/agent.h"
#include "launcher/reach/agent_link.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

/// `outputs` are the ranks' ends of pipes whose other ends the launcher reads itself. `input` is the input of
/// rank 0. The calling process must have one thread.
Result<AgentProcess> start_local_agent(std::vector<OutputEnds> outputs, Fd input,
                                       const InheritedState& inherited);

}  // namespace dabke::launcher
