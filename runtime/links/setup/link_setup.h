// Opens links from one rank to a set of others.
//
//   1. Of each pair the lower rank listens; it leaves its address in the store under `<prefix>/<rank>`.
//   2. The higher rank gets the address and connects. When the connection fails it tries again, a little
//      later each time.
//   3. Both prove themselves (handshake.h). A client that is silent, slow or no rank of this epoch is
//      dropped; it costs the others nothing, because all clients are served side by side.
//   4. The listener is closed once all have come.
//   5. A link that ends before all others are there ends the setup, unless its rank has left in good order.
//
// Where shared memory is wanted, the lower rank listens on a Unix socket as well, before it leaves its
// address, and the higher one tries that first. Nobody listens there when the ranks are on two hosts, or in
// containers that do not share a network; then, and whenever anything else goes wrong on that socket, it goes
// on as above. So both always agree: the higher rank decides by where it comes.
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
  required,  // an error names the neighbour with which it cannot be had, and why
};

struct LinkSetup {
  const World& world;
  std::span<const Rank> neighbours;     // any other ranks, each once
  SocketAddress listen_at;              // port 0
  std::shared_ptr<store::Store> store;  // this job's and epoch's
  ForkGuard& guard;                     // must outlive the links
  Log log;
  TimePoint deadline;
  std::string prefix = "links";
  ProcessIdentity self = identity_of_this_process();
  Duration peer_timeout = Duration::zero();  // the links'; see TcpLink
  /// The time for a client that connected to prove itself, and for a connection of ours over TCP to be
  /// answered: one that is not is given up, and another one tried.
  Duration client_patience = std::chrono::seconds(10);
  SharedMemory shared_memory = SharedMemory::never;
  /// Asked ten times a second: an error ends the setup with it. Empty: this is in init, and the store's trouble does.
  std::function<Status()> aborted = {};
  /// What the neighbours that are linked already are sent when the setup fails, before their links are closed. Empty:
  /// nothing.
  std::function<std::vector<std::byte>(const Status& why)> last_words = {};
};

/// One link for each neighbour, in their order. Code timeout names the ranks and hosts that are missing, what
/// is known of each, and what to do; code mismatch when a neighbour is of another build, job, epoch or key.
Result<std::vector<std::unique_ptr<Link>>> open_links(const LinkSetup& setup);

}  // namespace dabke::links
