// What carries the negotiation's messages between ranks. It knows nothing of what they mean.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/world.h"

namespace dabke {

/// Receives what a channel saw; called on the thread inside poll().
class ControlSink {
 public:
  virtual ~ControlSink() = default;
  virtual void on_message(Rank peer, std::span<const std::byte> message) = 0;
  /// Once per peer, after its last message. `cause` names the peer and its host, and says how we know
  /// ("rank 3 on host-b: connection reset", "process 4711 of rank 3 on host-b ended").
  virtual void on_peer_lost(Rank peer, const Status& cause) = 0;
};

/// Threads: wake() from any; everything else from whoever drives the coordinator, one at a time.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;
  virtual std::string_view name() const = 0;  // as in DABKE_CONTROLLER
  /// Queues one whole message to a neighbour and sends what can be sent; never blocks. To a lost peer it does nothing.
  virtual void send(Rank peer, std::span<const std::byte> message) = 0;
  /// Delivers what has come. When nothing has, blocks until something does, wake() is called or `deadline` is over.
  virtual void poll(TimePoint deadline, ControlSink& sink) = 0;
  /// Makes the current or the next poll() return.
  virtual void wake() = 0;
  /// Sends what is still queued, until `deadline` at the latest, then closes every link. A peer whose link ends this
  /// way sees it as lost; whether that was a goodbye is known from the messages before.
  virtual void close(TimePoint deadline) = 0;
};

}  // namespace dabke
