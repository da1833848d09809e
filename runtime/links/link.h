// A connection to one other rank that carries whole messages, both ways, in order. Non-blocking.
//
// Whoever gets a Link may trust its peer: the peer has proved that it knows the job's key (handshake.h). A
// Link is owned by one driver thread, which waits for descriptor() together with all else that it waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/status.h"
#include "runtime/base/world.h"
#include "runtime/links/process_identity.h"

namespace dabke::links {

/// No message is longer; a length above it is taken for garbage.
inline constexpr std::size_t kMaxFrameBytes = std::size_t{256} << 20;

struct LinkPeer {
  Rank rank = -1;
  ProcessIdentity process;
  std::string address;  // "10.0.0.2:40123"; for messages
};

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// `frame` is valid during the call. May send on the link; may not destroy it.
  virtual void on_frame(std::span<const std::byte> frame) = 0;
};

class Link {
 public:
  enum class Received {
    all,     // nothing more for now; the descriptor says when there is
    more,    // stopped so that other links get their turn; the descriptor is still readable
    closed,  // the peer closed; every whole message before that has been delivered
  };

  virtual ~Link() = default;
  virtual const LinkPeer& peer() const = 0;
  /// Whether it goes through memory that both processes share; then poll_ready() is worth asking often.
  virtual bool is_shared_memory() const { return false; }
  /// Whether a network is between: then its end may go without a word. Both ends say the same.
  virtual bool crosses_network() const { return !is_shared_memory(); }
  /// Readable when receive() has something to do; wait for it to be writable only while wants_write().
  virtual int descriptor() const = 0;
  /// Whether bytes are queued that the peer has not taken yet.
  virtual bool wants_write() const = 0;

  /// Sends what can be sent now and queues the rest. Code invalid_argument, with nothing queued, for a frame
  /// above kMaxFrameBytes. Once the connection is broken nothing is queued any more, and receive() will
  /// report the loss after the last message.
  virtual Status send(std::span<const std::byte> frame) = 0;
  virtual void flush() = 0;
  /// Delivers whole frames that have come. An error ends the link and says why; frames before it were
  /// delivered.
  virtual Result<Received> receive(FrameSink& sink) = 0;

  /// Nothing will be sent any more; call when nothing is queued. The peer sees the end after the last
  /// message.
  virtual void finish_sending() = 0;
  /// Whether the peer's host has all that was sent, so that closing cannot lose any of it.
  virtual bool all_arrived() const = 0;

  // Around sleeping. A peer in shared memory makes no system call for a link whose driver is awake, so:
  //   if (link.prepare_to_sleep()) { wait for descriptor(); link.woken(); }
  // Over a socket the kernel does all this.

  /// Whether flush() or receive() has something to do, as far as can be seen without a system call.
  virtual bool poll_ready() const { return false; }
  /// Asks the peer to make descriptor() readable from now on. False, and nothing was asked: poll_ready().
  virtual bool prepare_to_sleep() { return true; }
  /// Called after the wait, however it ended.
  virtual void woken() {}
  /// A send() from now on does not wake a peer that sleeps; it may well be about to look by itself.
  virtual void hold_wakes() {}
  /// Wakes the peer when it still sleeps on what was sent, and send() does so again.
  virtual void send_wakes() {}
};

}  // namespace dabke::links
