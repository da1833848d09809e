// The sockets of one Gloo context. Gloo neither shows them nor sets FD_CLOEXEC, and offers no way to end a
// wait from another thread; shutting the sockets down does, as a lost connection would.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/threads/fork_guard.h"
#include "runtime/links/network.h"
#include "runtime/links/tcp_liveness.h"

namespace dabke::ops {

class PairSockets {
 public:
  /// The addresses where Gloo listens for a peer, and where that peer listens for us. Which of the two
  /// connects is Gloo's affair.
  struct Pair {
    int set_rank;  // the peer's in the set
    links::SocketAddress own;
    links::SocketAddress peer;
  };

  PairSockets(ForkGuard& fork_guard, Duration peer_timeout)
      : fork_guard_(fork_guard), peer_timeout_(peer_timeout) {}
  ~PairSockets() { forget(); }
  PairSockets(const PairSockets&) = delete;
  PairSockets& operator=(const PairSockets&) = delete;

  /// Called before connecting: from now on shut_down() looks for sockets by these addresses.
  void expect(std::vector<Pair> pairs);
  /// When all are connected: finds them, sets FD_CLOEXEC, gives them to the fork guard and has the kernel
  /// watch them.
  void adopt();
  /// Called before Gloo closes them.
  void forget();

  /// A peer that will send no more, though a run waits for it.
  struct Lost {
    int set_rank;
    bool in_silence;  // its host has answered nothing for `peer_timeout`; else the connection was closed
  };
  /// To be asked now and then, while a run is under way. Gloo ends no wait for a message of which a part has
  /// come when its connection breaks, so connections that are over are looked for as well.
  std::optional<Lost> lost_peer();
  /// A run begins: what was seen during an earlier one says nothing of now.
  void begin_run();
  /// The places of the peers whose connections Gloo has given up. Where `said`, its words, names the other ends of some of
  /// them these alone: one failure makes others.
  std::vector<int> broken(const std::string& said);

  /// Ends every connection, and the waiting for one. From any thread, as often as one
  /// likes.
  void shut_down();

 private:
  /// A descriptor's number is used again once Gloo has closed it; its inode tells whether it still is the
  /// same socket.
  struct Socket {
    int fd;
    ino_t inode;
    int set_rank;
    links::SocketAddress remote;
    links::TcpSilence silence = {};
    bool was_over = false;  // at the last look; by the next the run should have ended
  };

  std::mutex mutex_;
  ForkGuard& fork_guard_;
  const Duration peer_timeout_;  // zero: none
  std::vector<Pair> expected_;   // while connecting
  std::vector<Socket> sockets_;
};

}  // namespace dabke::ops
