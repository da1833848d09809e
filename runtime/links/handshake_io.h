// The bytes of a handshake over a socket that never blocks.
#pragma once

#include "runtime/base/status.h"
#include "runtime/links/handshake.h"

namespace dabke::links {

struct HandshakeTurn {
  Status ended;    // why the connection is of no use any more
  Status refused;  // why this side has just refused; the refusal is on its way
};

/// Sends and receives as much as possible without waiting. After a refusal, bytes from the client are thrown
/// away until it closes: closing first would destroy the refusal on its way.
HandshakeTurn converse_over(int fd, Handshake& handshake);

}  // namespace dabke::links
