// How two ranks of one host set up a link through shared memory, once they have proved themselves to each
// other on a Unix socket (handshake.h ends with step 4).
//
//   5. The acceptor makes the segment and two eventfds and sends OFFER with the three descriptors.
//   6. The connector maps the segment and answers TAKEN.
//   7. The acceptor answers AGREED and has its link. The connector has its link when AGREED has come.
//
// A side that fails closes the socket instead. Then neither has a link, and the connector connects again over
// TCP.
#pragma once

#include <memory>

#include "runtime/links/shm/shm_link.h"

namespace dabke::shm {

class ShmAgreement {
 public:
  ShmAgreement(bool is_connector, ForkGuard& guard) : guard_(guard) { parts_.is_connector = is_connector; }
  /// Does as much as possible without waiting. True: agreed. After an error the caller closes the socket.
  Result<bool> advance(int socket);
  /// Called once, after they have agreed.
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
