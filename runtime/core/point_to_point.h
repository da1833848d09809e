// A send or a receive: an operation in the process set of its two ranks.
#pragma once

#include <cstdint>

#include "runtime/call/request.h"
#include "runtime/operation/process_set_table.h"

namespace dabke::core {

/// One end of a message.
struct Message {
  Rank peer = 0;        // the other end, a rank of the world; of a receive also kAnyRank
  bool is_sent = true;  // by this rank
  std::int64_t tag = 0;
};

/// Turns the request, whose process set is the caller's, into that of a message between `own` and the peer.
/// Its name gets the direction, the tag and the process set, so that only the two ends of one message have
/// one name: "x [0 to 1, tag 7]". A receive from any rank stays in the caller's set, until its sender is
/// known.
///   errors  unknown_process_set; invalid_argument for a peer that is not in the set, or is this rank
Status become_message(Request& request, const Message& message, const ProcessSetTable& sets, Rank own);

}  // namespace dabke::core
