// The agent of one host: runs the ranks there, each below its supervisor, and speaks with the launcher
// (launcher/agent_protocol/protocol.h). When the launcher is gone it ends them.
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
  Fd input;                         // what rank 0 reads; empty: nothing, or what comes in frames
  InheritedState inherited;
  std::string job_key;  // where it has come by another way than the order
  Fd signals;           // run_agent() opens it
};

/// Stays until the launcher has closed the conversation and all that was started has ended. What the process
/// returns. The process has one thread.
int run_agent(AgentStart start);
/// As `dabkerun --agent`: the launcher is at the other ends of stdin and stdout.
int run_agent_here();

}  // namespace dabke::launcher
