// Opens links from one rank to a set of others.
//
//   1. Of each pair the lower rank listens. It leaves its address in the store under `<prefix>/<rank>`.
//   2. The higher rank gets the address and connects. If the connection fails it tries again, a little later
//      each time.
//   3. Both prove themselves (handshake.h). A client that is silent, slow or not a rank of this epoch is
//      dropped. It does not delay the others, because all clients are served side by side.
//   4. The listener is closed once all links exist.
//   5. A link that ends before all others exist ends the setup, unless its rank has left in good order.
//
// If shared memory is wanted, the lower rank also listens on a Unix socket, before it leaves its address, and
// the higher rank tries that first. Nobody listens there if the ranks are on two hosts, or in containers that
// do not share a network. In that case, and after any other failure on that socket, the setup goes on over
// TCP. So both ranks always agree: the higher rank decides by the socket to which it connects.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/threads/fork_guard.h"
#include "runtime/base/world.h"
#include "runtime/links/link.h"
#include "runtime/links/network.h"
#include "runtime/store/store.h"

namespace dabke::links {

enum class SharedMemory {
  never,
  where_possible,
  required,  // an error names the neighbour with which it is impossible, and why
};

struct LinkSetup {
  const World& world;
  std::span<const Rank> neighbours;     // other ranks, each once
  SocketAddress listen_at;              // port 0
  std::shared_ptr<store::Store> store;  // of this job and epoch
  ForkGuard& guard;                     // must outlive the links
  Log log;
  TimePoint deadline;
  std::string prefix = "links";
  ProcessIdentity self = identity_of_this_process();
  Duration peer_timeout = Duration::zero();  // of the links; see TcpLink
  /// The time for a client to prove itself, and for a connection of ours over TCP to be answered. After it
  /// the connection is dropped, and another one is tried.
  Duration client_patience = std::chrono::seconds(10);
  SharedMemory shared_memory = SharedMemory::never;
  /// Called ten times a second, and its error ends the setup. Empty: this is in init, and the store's trouble
  /// ends it.
  std::function<Status()> aborted = {};
  /// The message for neighbours that are already linked, if the setup fails, before their links are closed.
  /// Empty: none.
  std::function<std::vector<std::byte>(const Status& why)> last_words = {};
};

/// One link for each neighbour, in their order. Code timeout names the missing ranks and hosts, what is known
/// of each, and the remedy. Code mismatch: a neighbour is of another build, job, epoch or key.
Result<std::vector<std::unique_ptr<Link>>> open_links(const LinkSetup& setup);

}  // namespace dabke::links
