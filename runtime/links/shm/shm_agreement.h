// How two ranks of one host come to a link through shared memory, once they have proved themselves to each
// other on a Unix socket (handshake.h ends with step 4).
//
//   5. The acceptor makes the segment and two eventfds and sends OFFER with the three descriptors.
//   6. The connector maps the segment and answers TAKEN.
//   7. The acceptor answers AGREED and has its link. The connector has its own when AGREED has come.
//
// Whoever cannot closes the socket instead. Then neither has a link, and the connector comes again over TCP.
#pragma once

#include <memory>

#include "runtime/links/shm/shm_link.h"

namespace dabke::shm {

class ShmAgreement {
 public:
  ShmAgreement(bool is_connector, ForkGuard& guard) : guard_(guard) { parts_.is_connector = is_connector; }
  /// Does what can be done without waiting. True: agreed. An error: close the socket.
  Result<bool> advance(int socket);
  /// Called once, when agreed.
  Result<std::unique_ptr<links::Link>> take_link(GuardedFd socket, links::LinkPeer peer);

 private:
  enum class Step { offer, taken, agreed };
  Result<bool> send_offer(int socket);
  Result<bool> take_offer(int socket);
  Result<bool> await_word(int socket);

  ForkGuard& guard_;
  ShmLinkParts parts_;
  Step step_ = Step::offer;
};

}  // namespace dabke::shm
