// Sends messages (launcher/agent_protocol/protocol.h) into a channel of frames.
#pragma once

#include <cstdint>

#include "launcher/agent_protocol/frame_channel.h"
#include "launcher/agent_protocol/protocol.h"

namespace dabke::launcher {

template <class Message>
void send_message(FrameChannel& channel, FrameKind kind, const Message& message) {
  channel.send(static_cast<std::uint8_t>(kind), to_wire(message));
}

/// Sends a message without content.
inline void send_message(FrameChannel& channel, FrameKind kind) {
  channel.send(static_cast<std::uint8_t>(kind), {});
}

}  // namespace dabke::launcher
