// The agent of one host: runs the ranks there, each below its supervisor, and communicates with the launcher
// (launcher/agent_protocol/protocol.h). When the launcher is gone, the agent ends the ranks.
#pragma once

#include <string>
#include <vector>

#include "launcher/process/output_ends.h"
#include "launcher/process/supervisor.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

struct AgentStart {
  Fd in, out;                       // may be copies of one socket
  std::vector<OutputEnds> outputs;  // by the host's ranks; none: output travels in frames
  Fd input;                         // the input of rank 0; empty: none, or it comes in frames
  InheritedState inherited;
  std::string job_key;  // if it has not come in the order
  Fd signals;           // opened by run_agent()
};

/// Runs the agent until the launcher has closed the conversation and all that was started has ended. Returns
/// the exit code of the process. The process has one thread.
int run_agent(AgentStart start);
/// For `dabkerun --agent`: the launcher is at the other ends of stdin and stdout.
int run_agent_here();

}  // namespace dabke::launcher
