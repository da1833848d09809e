// The bytes of a handshake over a socket that never blocks.
#pragma once

#include "runtime/base/status.h"
#include "runtime/links/handshake.h"

namespace dabke::links {

struct HandshakeTurn {
  Status ended;    // the connection is of no use any more
  Status refused;  // this side has just refused; what it says of it is on its way
};

/// Sends and receives what can be without waiting. A refusal is sent, and what the client still sends is thrown away
/// until it closes: closing first would destroy the refusal on its way.
HandshakeTurn converse_over(int fd, Handshake& handshake);

}  // namespace dabke::links
