// The sockets of one Gloo context. Gloo neither shows them nor sets FD_CLOEXEC, and cannot end a wait from
// another thread. Shutting the sockets down ends the wait, as a lost connection would.
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
  /// The addresses where this process listens for a peer, and where that peer listens for us. Gloo decides
  /// which of the two connects.
  struct Pair {
    int set_rank;  // the set rank of the peer
    links::SocketAddress own;
    links::SocketAddress peer;
  };

  PairSockets(ForkGuard& fork_guard, Duration peer_timeout)
      : fork_guard_(fork_guard), peer_timeout_(peer_timeout) {}
  ~PairSockets() { forget(); }
  PairSockets(const PairSockets&) = delete;
  PairSockets& operator=(const PairSockets&) = delete;

  /// Called before connecting: from now on shut_down() searches for sockets by these addresses.
  void expect(std::vector<Pair> pairs);
  /// Called when all sockets are connected. Finds them, sets FD_CLOEXEC, registers them with the fork guard,
  /// and makes the kernel watch their connections.
  void adopt();
  /// Called before Gloo closes the sockets.
  void forget();

  /// A peer that will send nothing more, although a run waits for it.
  struct Lost {
    int set_rank;
    bool in_silence;  // the peer's host has not answered for `peer_timeout`; else the connection was closed
  };
  /// Called periodically during a run. If a connection breaks after a part of a message has arrived, Gloo
  /// does not end the wait. So this function also searches for closed connections.
  std::optional<Lost> lost_peer();
  /// Called when a run begins. Resets the findings of earlier runs.
  void begin_run();
  /// Returns the set ranks of the peers whose connections Gloo has dropped. If `said`, Gloo's text, contains
  /// addresses of some of these peers, returns only those: one failure causes others.
  std::vector<int> broken(const std::string& said);

  /// Ends every connection, and the wait for one. From any thread, any number of times.
  void shut_down();

 private:
  /// After Gloo has closed a descriptor, its number is used again. The inode shows whether it is still the
  /// same socket.
  struct Socket {
    int fd;
    ino_t inode;
    int set_rank;
    links::SocketAddress remote;
    links::TcpSilence silence = {};
    bool was_over = false;  // at the last check; the run should have ended before the next
  };

  std::mutex mutex_;
  ForkGuard& fork_guard_;
  const Duration peer_timeout_;  // zero: no limit
  std::vector<Pair> expected_;   // while connecting
  std::vector<Socket> sockets_;
};

}  // namespace dabke::ops
