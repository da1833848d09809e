// An agent that connects to the launcher by itself, because the program that starts it carries no bytes: srun
// delivers only whole lines.
//
// 1. One srun starts the agents of all hosts, or, in an elastic job, one each. Its stdin carries the same
//    DialMessage, in one frame, to each.
// 2. The agent finds its own host in the list by Slurm's name for it, and tries all of the launcher's
//    addresses at once. A connection is established when both sides have proved that they have the job's key
//    (runtime/links/handshake.h).
// 3. On the first established connection the agent begins the conversation
//    (launcher/agent_protocol/protocol.h). It closes the others.
//
// The key comes through Slurm, and never travels on these connections.
#pragma once

namespace dabke::launcher {

/// For `dabkerun --agent --dial`. Returns the exit code of the process. Prints on stderr why it cannot reach
/// the launcher.
int run_agent_by_dialling();

}  // namespace dabke::launcher
