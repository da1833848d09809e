// The sockets of one Gloo context. Gloo neither shows them nor sets FD_CLOEXEC, and offers no way to end a
// wait from another thread; shutting the sockets down does, as a lost connection would.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <vector>

#include "runtime/base/fork_guard.h"
#include "runtime/transport/network.h"

namespace dabke {

class PairSockets {
 public:
  /// Where Gloo listens for a peer, and where that peer listens for us. Which of the two connects is Gloo's
  /// affair.
  struct Pair {
    SocketAddress own;
    SocketAddress peer;
  };

  explicit PairSockets(ForkGuard& fork_guard) : fork_guard_(fork_guard) {}
  ~PairSockets() { forget(); }
  PairSockets(const PairSockets&) = delete;
  PairSockets& operator=(const PairSockets&) = delete;

  /// Before connecting: from now on shut_down() looks for sockets by these addresses.
  void expect(std::vector<Pair> pairs);
  /// When all are connected: finds them, sets FD_CLOEXEC and gives them to the fork guard.
  void adopt();
  /// Before Gloo closes them.
  void forget();

  /// Ends every connection, and the waiting for one. From any thread, as often as one
  /// likes.
  void shut_down();

 private:
  /// A descriptor's number is used again once Gloo has closed it; its inode tells whether it still is the
  /// same socket.
  struct Socket {
    int fd;
    ino_t inode;
  };

  std::mutex mutex_;
  ForkGuard& fork_guard_;
  std::vector<Pair> expected_;  // while connecting
  std::vector<Socket> sockets_;
};

}  // namespace dabke
