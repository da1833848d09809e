// An agent that comes to the launcher, where whoever starts it carries no bytes: srun delivers whole lines only.
//
// 1. One srun starts the agents of all hosts. Its stdin carries the same DialMessage, in one frame, to each.
// 2. The agent finds its own host in the list by Slurm's name for it, and tries all of the launcher's addresses at once. One
//    counts when both sides have proved that they know the job's key (runtime/links/handshake.h).
// 3. On the connection that it takes the agent begins the conversation (launcher/agent_protocol/protocol.h); the others it closes.
//
// The key has come by Slurm's own way, and travels on no such connection.
#pragma once

namespace dabke::launcher {

/// As `dabkerun --agent --dial`. What the process returns; what keeps it from the launcher is said on stderr.
int run_agent_by_dialling();

}  // namespace dabke::launcher
