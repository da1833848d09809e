// The channel that carries the negotiation's messages between ranks, whatever they mean.
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

/// Receives the events of a channel. Called on the thread that is in poll() or look().
class ControlSink {
 public:
  virtual ~ControlSink() = default;
  virtual void on_message(Rank peer, std::span<const std::byte> message) = 0;
  /// Called once per peer, after its last message. `cause` names the peer and its host, and how the loss was
  /// noticed ("rank 3 on host-b: connection reset", "process 4711 of rank 3 on host-b ended").
  virtual void on_peer_lost(Rank peer, const Status& cause) = 0;
};

/// wake() may be called from any thread. All else is called by the thread that drives the coordinator, one at
/// a time: the holder of the baton, if there is one.
class ControlChannel {
 public:
  virtual ~ControlChannel() = default;
  virtual std::string_view name() const = 0;  // as in DABKE_CONTROLLER
  /// Queues one whole message to a neighbour, and sends what can be sent. Never blocks. Does nothing for a
  /// lost peer.
  virtual void send(Rank peer, std::span<const std::byte> message) = 0;
  /// Delivers what has come. If nothing has, blocks until something comes, wake() is called, or `deadline` is
  /// over. The caller holds `baton`. The thread releases it while it sleeps in the kernel, if
  /// can_be_helped().
  virtual void poll(TimePoint deadline, ControlSink& sink, Baton& baton) = 0;
  /// Makes the current or the next poll() return.
  virtual void wake() = 0;
  /// Sends what is still queued, until `deadline` at the latest, then closes every link. The peer sees its
  /// link as lost; earlier messages show whether this was a goodbye.
  virtual void close(TimePoint deadline) = 0;

  /// Returns the process of a neighbour on this host and in this pid namespace; 0 if it is not known.
  virtual int process_of(Rank peer) const {
    (void)peer;
    return 0;
  }

  /// How far the clock of a neighbour's host is from ours. Nothing for ranks that share our clock, and until
  /// enough beats have come.
  virtual std::optional<ClockOffset> clock_of(Rank peer, TimePoint now) const {
    (void)peer, (void)now;
    return std::nullopt;
  }

  // Driving while another thread sleeps in poll(), with the baton that this sleeping thread released:
  //   while (...) if (channel.look(sink)) ...;
  //   channel.hand_back(...);

  /// True if everything that comes can be seen without a system call, so that helping is worth while. Fixed
  /// when the channel is opened.
  virtual bool can_be_helped() const { return false; }
  /// Delivers what has come, without a system call. True if something had come, or wake() was called. From
  /// the first look() on, messages wake no sleeping neighbour until hand_back().
  virtual bool look(ControlSink& sink) {
    (void)sink;
    return false;
  }
  /// Wakes the neighbours that still sleep and to which messages were sent. From now on the thread in poll()
  /// waits again. It returns at once if something has come meanwhile, or if it is `needed`.
  virtual void hand_back(bool needed) { (void)needed; }
};

/// poll() for a thread that drives alone.
inline void poll(ControlChannel& channel, TimePoint deadline, ControlSink& sink) {
  Baton baton;
  const std::lock_guard lock(baton);
  channel.poll(deadline, sink, baton);
}

}  // namespace dabke::control
