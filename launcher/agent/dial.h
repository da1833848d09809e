// An agent that comes to the launcher, where whoever starts it carries no bytes: srun delivers whole lines only.
//
// 1. One srun starts the agents of all hosts. Its stdin carries the same DialMessage, in one frame, to each.
// 2. The agent finds its own host in the list by Slurm's name for it, and tries all of the launcher's addresses at once. One
//    counts when both sides have proved that they know the job's key (runtime/transport/handshake.h).
// 3. On the connection that it takes the agent begins the conversation (launcher/agent/protocol.h); the others it closes.
//
// The key has come by Slurm's own way, and travels on no such connection.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/transport/handshake.h"

namespace dabke {

struct DialMessage {
  std::vector<std::string> addresses;  // of the launcher, with ports
  std::string job_id, job_key;         // in hexadecimal digits
  std::vector<std::string> hosts;      // Slurm's names of those that dial
  std::int64_t timeout_ms = 0;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.addresses, self.job_id, self.job_key, self.hosts, self.timeout_ms);
  }
};
inline constexpr std::uint8_t kDialFrame = 1;

/// In these handshakes the launcher is number 0, and the host at place i of the list is i + 1.
inline constexpr Rank kLauncherNumber = 0;
inline Rank number_of_host(std::size_t place) { return static_cast<Rank>(place + 1); }
/// Errors: the id or the key is no such thing.
Result<Handshake::Self> dialling_self(const std::string& job_id, const std::string& job_key, Rank number);

/// As `dabkerun --agent --dial`. What the process returns; what keeps it from the launcher is said on stderr.
int run_agent_by_dialling();

}  // namespace dabke
