// Links over TCP: the listener, the connecting socket, and the Link after a finished handshake.
#pragma once

#include <memory>

#include "runtime/base/clock.h"
#include "runtime/base/threads/guarded_fd.h"
#include "runtime/links/byte_queue.h"
#include "runtime/links/frame.h"
#include "runtime/links/link.h"
#include "runtime/links/network.h"

namespace dabke::links {

/// Listens only on `address`; port 0 means any free one. Non-blocking, CLOEXEC.
Result<Fd> tcp_listen(const SocketAddress& address);

/// The next waiting client; an empty Fd if there is none. Clients that have gone meanwhile are skipped.
Result<Fd> tcp_accept(int listener);

/// Begins to connect. The descriptor becomes writable on success or failure; then call tcp_connected().
Result<Fd> tcp_connect(const SocketAddress& address);
Status tcp_connected(int fd);

class TcpLink final : public Link {
 public:
  /// `fd` is connected and non-blocking, and the handshake is over. `peer_timeout` is how long the peer's
  /// host may leave sent bytes unanswered before the link breaks; zero: for ever.
  TcpLink(GuardedFd fd, LinkPeer peer, Duration peer_timeout);

  const LinkPeer& peer() const override { return peer_; }
  bool crosses_network() const override { return crosses_network_; }
  int descriptor() const override { return fd_.get(); }
  bool wants_write() const override { return !unsent_.empty(); }
  Status send(std::span<const std::byte> frame) override;
  void flush() override;
  Result<Received> receive(FrameSink& sink) override;
  void finish_sending() override;
  bool all_arrived() const override;

 private:
  void break_off(int errno_value);

  GuardedFd fd_;
  LinkPeer peer_;
  bool crosses_network_ = true;
  ByteQueue unsent_;
  FrameDecoder decoder_;
  Status broken_;  // the error that sending met
};

}  // namespace dabke::links
