// The message for an agent that connects to the launcher by itself (launcher/agent/dial.h), and the numbers
// of the two sides in the handshake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/links/handshake.h"

namespace dabke::launcher {

struct DialMessage {
  std::vector<std::string> addresses;  // of the launcher, with ports
  std::string job_id, job_key;         // in hexadecimal digits
  std::vector<std::string> hosts;      // Slurm's names of the hosts that connect
  std::int64_t timeout_ms = 0;
  template <class Io, class Self>
  static void fields(Io& io, Self& self) {
    io(self.addresses, self.job_id, self.job_key, self.hosts, self.timeout_ms);
  }
};
inline constexpr std::uint8_t kDialFrame = 1;

/// The numbers in these handshakes: the launcher is 0, and the host at index i of the list is i + 1.
inline constexpr Rank kLauncherNumber = 0;
inline Rank number_of_host(std::size_t place) { return static_cast<Rank>(place + 1); }
/// Fails if the id or the key is malformed.
Result<links::Handshake::Self> dialling_self(const std::string& job_id, const std::string& job_key,
                                             Rank number);

}  // namespace dabke::launcher
