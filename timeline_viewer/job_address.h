// The address at which a job can be viewed, HOST:PORT with a name or a numeric address,
// and a connection to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"
#include "runtime/links/network.h"

namespace dabke::viewer {

/// Returns all addresses of the name, in the system's order; at least one. Accepts "node1:4711",
/// "10.0.0.2:4711" and "[fd00::2]:4711".
///   errors  invalid_argument: the text is not HOST:PORT, or the name is not known
Result<std::vector<links::SocketAddress>> resolve_job_address(std::string_view text);

/// Connects to the first address of the name that answers.
///   errors  as above; peer_lost: no program listens there
Result<Fd> connect_to_job(const std::string& text, TimePoint deadline);

}  // namespace dabke::viewer
