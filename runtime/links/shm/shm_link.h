// A link through shared memory to another process of this host.
//
// Frames travel through two rings in one segment, one for each direction; bytes that do not fit wait in a
// queue of the sender. Each side sleeps on an eventfd of its own, which the other writes only after a
// declared sleep (ring.h). The Unix socket over which the segment came stays open and carries only
// descriptors. Its end shows that the peer has closed or died.
#pragma once

#include "runtime/base/clock.h"
#include "runtime/base/threads/guarded_fd.h"
#include "runtime/links/byte_queue.h"
#include "runtime/links/frame.h"
#include "runtime/links/link.h"
#include "runtime/links/shm/ring.h"
#include "runtime/links/shm/segment.h"

namespace dabke::shm {

/// The layout of a link's segment.
struct ShmLinkMemory {
  RingMemory to_connector;
  RingMemory to_acceptor;
};

/// The parts of one side of a link. The two sides differ in which ring is which.
struct ShmLinkParts {
  Segment segment;  // it has sizeof(ShmLinkMemory) bytes
  GuardedFd socket;
  GuardedFd own_event;   // this side sleeps on it
  GuardedFd peer_event;  // the peer sleeps on it
  bool is_connector = false;
};

class ShmLink final : public links::Link {
 public:
  static Result<std::unique_ptr<links::Link>> make(ShmLinkParts parts, links::LinkPeer peer,
                                                   ForkGuard& guard);
  ~ShmLink() override;

  const links::LinkPeer& peer() const override { return peer_; }
  bool is_shared_memory() const override { return true; }
  /// An epoll over the eventfd and the socket. Never writable: room shows as readable.
  int descriptor() const override { return epoll_.get(); }
  bool wants_write() const override { return !unsent_.empty(); }
  Status send(std::span<const std::byte> frame) override;
  void flush() override;
  Result<Received> receive(links::FrameSink& sink) override;
  void finish_sending() override;
  /// Bytes in the ring outlive this side.
  bool all_arrived() const override { return unsent_.empty(); }

  bool poll_ready() const override;
  bool prepare_to_sleep() override;
  void woken() override;
  void hold_wakes() override { holds_wakes_ = true; }
  void send_wakes() override;

  /// Passes a descriptor beside the frames. The other side takes it after a frame has announced it, and waits
  /// for it until `deadline`. Until then its descriptor() stays readable.
  Status pass_descriptor(int fd);
  Result<Fd> take_descriptor(TimePoint deadline);

 private:
  ShmLink(ShmLinkParts parts, links::LinkPeer peer);

  Status write(std::span<const std::byte> bytes, std::size_t& written);
  void show_written();
  void wake_peer();
  void empty_event();
  bool socket_ended();
  void break_off(std::string why);

  Segment segment_;
  GuardedFd socket_, own_event_, peer_event_, epoll_;
  links::LinkPeer peer_;
  RingWriter out_;
  RingReader in_;
  links::ByteQueue unsent_;
  links::FrameDecoder decoder_;
  Status broken_;                        // the error that sending met
  bool sleeps_ = false, waits_ = false;  // declared, and not taken back
  std::uint64_t owed_ = 0;               // writes to own_event_ that were promised and not read yet
  bool holds_wakes_ = false, held_wake_ = false;
  bool peer_gone_ = false;
  bool end_reported_ = false;
};

}  // namespace dabke::shm
