// Connections to the store of a job, carried between an agent, to which ranks connect, and the launcher,
// which connects to the store. The code is the same at both ends.
#pragma once

#include <poll.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent_protocol/frame_channel.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

class CarriedConnections {
 public:
  explicit CarriedConnections(FrameChannel& channel) : channel_(channel) {}

  /// `socket` must be non-blocking.
  void add(std::int64_t connection, Fd socket);
  /// Takes bytes from the other end. An unknown connection has been closed here meanwhile.
  void take_bytes(std::int64_t connection, std::string_view bytes);
  void take_close(std::int64_t connection);

  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const pollfd& entry);

 private:
  struct Connection {
    Fd socket;
    std::string waiting;      // bytes to write to the socket
    bool is_closing = false;  // set when the socket is to be closed after they are written
  };
  void write(std::int64_t number, Connection& connection);
  void read(std::int64_t number, Connection& connection);

  FrameChannel& channel_;
  std::map<std::int64_t, Connection> connections_;
};

}  // namespace dabke::launcher
