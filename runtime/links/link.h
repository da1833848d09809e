// A connection to one other rank that carries whole messages, both ways, in order. Non-blocking.
//
// The peer of a Link can be trusted, because it has proved that it has the job's key (handshake.h). A Link is
// owned by one driver thread, which waits for descriptor() together with its other events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/links/process_identity.h"

namespace dabke::links {

/// The longest message; a length above it is taken for garbage.
inline constexpr std::size_t kMaxFrameBytes = std::size_t{256} << 20;

struct LinkPeer {
  Rank rank = -1;
  ProcessIdentity process;
  std::string address;  // "10.0.0.2:40123"; for messages
};

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// `frame` is valid during the call. The function may send on the link, but not destroy it.
  virtual void on_frame(std::span<const std::byte> frame) = 0;
};

class Link {
 public:
  enum class Received {
    all,     // nothing more for now; the descriptor becomes readable when there is
    more,    // stopped so that other links get their turn; the descriptor is still readable
    closed,  // the peer closed; every whole message before that has been delivered
  };

  virtual ~Link() = default;
  virtual const LinkPeer& peer() const = 0;
  /// True if it goes through memory that both processes share. Then it pays to call poll_ready() often.
  virtual bool is_shared_memory() const { return false; }
  /// True if a network is between, so that the link may end unnoticed. Both ends return the same.
  virtual bool crosses_network() const { return !is_shared_memory(); }
  /// Readable when receive() has something to do. Wait for it to be writable only while wants_write().
  virtual int descriptor() const = 0;
  /// True if bytes are queued that the peer has not taken yet.
  virtual bool wants_write() const = 0;

  /// Sends what can be sent now and queues the rest. Code invalid_argument, with nothing queued, for a frame
  /// above kMaxFrameBytes. Once the connection is broken nothing is queued any more, and receive() reports
  /// the loss after the last message.
  virtual Status send(std::span<const std::byte> frame) = 0;
  virtual void flush() = 0;
  /// Delivers the whole frames that have come. An error ends the link and gives the reason, after the frames
  /// before it.
  virtual Result<Received> receive(FrameSink& sink) = 0;

  /// Ends the sending; called when nothing is queued. The peer sees the end after the last message.
  virtual void finish_sending() = 0;
  /// True if the peer's host has all that was sent, so that closing cannot lose any of it.
  virtual bool all_arrived() const = 0;

  // The functions for sleeping. A peer in shared memory makes no system call for a link whose driver is
  // awake, so:
  //   if (link.prepare_to_sleep()) { wait for descriptor(); link.woken(); }
  // Over a socket the kernel does all this.

  /// True if flush() or receive() has something to do, as far as can be seen without a system call.
  virtual bool poll_ready() const { return false; }
  /// Asks the peer to make descriptor() readable from now on. False if poll_ready(); then nothing was asked.
  virtual bool prepare_to_sleep() { return true; }
  /// Called after the wait, however it ended.
  virtual void woken() {}
  /// From now on send() does not wake a peer that sleeps, because it may be about to check by itself.
  virtual void hold_wakes() {}
  /// Wakes the peer if it still sleeps on sent messages. From now on send() wakes it again.
  virtual void send_wakes() {}
};

}  // namespace dabke::links
