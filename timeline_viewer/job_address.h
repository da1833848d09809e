// Where a job is looked at: HOST:PORT, of a name or a numeric address, and a connection to it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"
#include "runtime/links/network.h"

namespace dabke::viewer {

/// All that the name stands for, in the system's order: "node1:4711", "10.0.0.2:4711", "[fd00::2]:4711". Never empty.
///   errors  invalid_argument: no HOST:PORT, or nobody knows the name
Result<std::vector<links::SocketAddress>> resolve_job_address(std::string_view text);

/// To the first of what the name stands for that answers.
///   errors  as above; peer_lost: nobody listens there
Result<Fd> connect_to_job(const std::string& text, TimePoint deadline);

}  // namespace dabke::viewer
