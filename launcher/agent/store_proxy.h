// The store's address for the ranks of a host: a port of the loopback interface. The agent carries its
// connections to the launcher.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/agent/carried_connections.h"
#include "launcher/agent_protocol/frame_channel.h"
#include "runtime/base/status.h"
#include "runtime/base/threads/owned.h"

namespace dabke::launcher {

class StoreProxy {
 public:
  static Result<std::unique_ptr<StoreProxy>> open(FrameChannel& channel);

  /// In the form of DABKE_RENDEZVOUS.
  const std::string& url() const { return url_; }
  void add_poll_entries(std::vector<pollfd>& entries) const;
  void handle(const pollfd& entry);
  CarriedConnections& connections() { return connections_; }

 private:
  StoreProxy(FrameChannel& channel, Fd listener, std::string url)
      : channel_(channel), listener_(std::move(listener)), url_(std::move(url)), connections_(channel) {}
  void accept();

  FrameChannel& channel_;
  Fd listener_;
  std::string url_;
  std::int64_t next_ = 0;
  CarriedConnections connections_;
};

}  // namespace dabke::launcher
