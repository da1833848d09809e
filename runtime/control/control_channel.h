// What carries the negotiation's messages between ranks. It knows nothing of what they mean.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/control/baton.h"
#include "runtime/control/clock_offset.h"

namespace dabke::control {

/// Receives what a channel saw; called on the thread inside poll().
class ControlSink {
 public:
  virtual ~ControlSink() = default;
  virtual void on_message(Rank peer, std::span<const std::byte> message) = 0;
  /// Called once per peer, after its last message. `cause` names the peer and its host, and says how we know
  /// ("rank 3 on host-b: connection reset", "process 4711 of rank 3 on host-b ended").
  virtual void on_peer_lost(Rank peer, const Status& cause) = 0;
};

/// Threads: wake() from any; everything else from whoever drives the coordinator, one at a time: who holds
/// the baton, where there is one.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;
  virtual std::string_view name() const = 0;  // as in DABKE_CONTROLLER
  /// Queues one whole message to a neighbour and sends what can be sent; never blocks. To a lost peer it does
  /// nothing.
  virtual void send(Rank peer, std::span<const std::byte> message) = 0;
  /// Delivers what has come. When nothing has, blocks until something does, wake() is called or `deadline` is
  /// over. `baton` is held; it is given away while the thread sleeps in the kernel, where can_be_helped().
  virtual void poll(TimePoint deadline, ControlSink& sink, Baton& baton) = 0;
  /// Makes the current or the next poll() return.
  virtual void wake() = 0;
  /// Sends what is still queued, until `deadline` at the latest, then closes every link. A peer whose link
  /// ends this way sees it as lost; whether that was a goodbye is known from the messages before.
  virtual void close(TimePoint deadline) = 0;

  /// The process of a neighbour, where it is one of this host and pid namespace; 0: not known.
  virtual int process_of(Rank peer) const {
    (void)peer;
    return 0;
  }

  /// How far the clock of a neighbour's host is from ours. Nothing of ranks that share our clock, and until enough
  /// beats have come.
  virtual std::optional<ClockOffset> clock_of(Rank peer, TimePoint now) const {
    (void)peer, (void)now;
    return std::nullopt;
  }

  // Driving while another thread sleeps in poll(), with the baton that it gave away:
  //   while (...) if (channel.look(sink)) ...;
  //   channel.hand_back(...);

  /// Whether all that comes can be seen without a system call, so that this is worth while; as it was opened.
  virtual bool can_be_helped() const { return false; }
  /// Delivers what has come, without a system call; whether something had, or wake() was called. Neighbours
  /// who sleep are not woken yet for what is sent from the first look on.
  virtual bool look(ControlSink& sink) {
    (void)sink;
    return false;
  }
  /// Wakes the neighbours who still sleep on what was sent. From now on the thread in poll() waits again; it
  /// returns at once when something has come meanwhile, or when it is `needed`.
  virtual void hand_back(bool needed) { (void)needed; }
};

/// poll() for who drives alone.
inline void poll(ControlChannel& channel, TimePoint deadline, ControlSink& sink) {
  Baton baton;
  const std::lock_guard lock(baton);
  channel.poll(deadline, sink, baton);
}

}  // namespace dabke::control
