#include "ops/gloo/gloo_context.h"

#include <fmt/format.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <netinet/in.h>

#include <algorithm>
#include <chrono>

#include "ops/gloo/interruptible_buffers.h"

namespace dabke::ops {
namespace {

using std::chrono::milliseconds;

// Stands for "no limit": after a receive that times out, Gloo closes the pair without notice. Gloo's clocks
// overflow with longer limits.
constexpr milliseconds kForever = std::chrono::hours(24 * 365);
// The interval at which the wait for a peer's addresses checks `interrupted`.
constexpr milliseconds kLookAgain(20);

links::SocketAddress to_socket_address(const std::vector<char>& gloo_bytes) {
  const gloo::transport::tcp::Address address(gloo_bytes);
  const sockaddr_storage& storage = address.getSockaddr();
  const std::size_t length = storage.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return links::SocketAddress(reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(length));
}

Result<std::string> wait_for(store::Store& store, const std::string& key, TimePoint deadline,
                             const std::function<Status()>& interrupted) {
  for (;;) {
    DABKE_RETURN_IF_ERROR(interrupted());
    const TimePoint now = Clock::now();
    auto value = store.get(key, std::min(deadline, now + kLookAgain));
    if (value.is_ok() || value.status().code() != Code::timeout || now >= deadline) return value;
  }
}

}  // namespace

/// Gloo's context, with pairs that we make. Gloo's own rendezvous cannot be interrupted, and does not show
/// its sockets.
class GlooContext::Mesh final : public gloo::Context {
 public:
  Mesh(int rank, int size, GlooDevice& device) : gloo::Context(rank, size) {
    device_ = device.gloo();
    buffers_ = std::make_shared<InterruptibleBuffers>(device_->createContext(rank, size), device);
    transportContext_ = buffers_;
  }

  /// Listens for every peer. Returns the addresses by rank.
  std::vector<std::vector<char>> listen(milliseconds connect_limit) {
    // A pair keeps the limit with which it is made. It waits five times that limit for its connection, and
    // uses the limit for nothing else.
    buffers_->inner().setTimeout(std::max(connect_limit / 5, milliseconds(1)));
    std::vector<std::vector<char>> addresses(static_cast<std::size_t>(size));
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank)
        addresses[static_cast<std::size_t>(peer)] = transportContext_->createPair(peer)->address().bytes();
    }
    return addresses;
  }
  void connect(int peer, const std::vector<char>& address) {
    transportContext_->getPair(peer)->connect(address);
  }
  void lift_limits() {
    buffers_->inner().setTimeout(kForever);
    setTimeout(kForever);
  }
  void interrupt() { buffers_->interrupt(); }

 private:
  std::shared_ptr<InterruptibleBuffers> buffers_;  // transportContext_
};

GlooContext::GlooContext(GlooDevice& device, const ProcessSetInfo& set, ForkGuard& fork_guard,
                         Duration peer_timeout)
    : sockets_(fork_guard, peer_timeout),
      mesh_(std::make_shared<Mesh>(set.rank, set.size(), device)),
      context_(mesh_) {}

GlooContext::~GlooContext() { sockets_.forget(); }

void GlooContext::interrupt() {
  sockets_.shut_down();
  mesh_->interrupt();
}

Status GlooContext::connect(store::Store& store, const std::string& key, TimePoint deadline,
                            const std::function<Status()>& interrupted) {
  const int rank = mesh_->rank;
  const int size = mesh_->size;
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  const auto own = mesh_->listen(std::clamp(left, milliseconds(1), kForever));

  // Each rank stores one value: its address for every peer, all of one length. The field of the rank itself
  // is blank.
  const std::size_t length = own[rank == 0 ? 1 : 0].size();
  std::string value;
  for (const auto& address : own)
    value += address.empty() ? std::string(length, '\0') : std::string(address.begin(), address.end());
  DABKE_RETURN_IF_ERROR(store.set(fmt::format("{}/{}", key, rank), value));

  std::vector<std::vector<char>> theirs(static_cast<std::size_t>(size));
  std::vector<PairSockets::Pair> pairs;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::string peer_key = fmt::format("{}/{}", key, peer);
    DABKE_ASSIGN_OR_RETURN(const std::string all, wait_for(store, peer_key, deadline, interrupted));
    if (all.size() != length * static_cast<std::size_t>(size)) {
      return Status(
          Code::transport,
          fmt::format(
              "'{}' in the {} store has {} bytes instead of {}: the ranks run different builds of Gloo",
              peer_key, store.describe(), all.size(), length * static_cast<std::size_t>(size)));
    }
    const char* const mine = all.data() + length * static_cast<std::size_t>(rank);
    theirs[static_cast<std::size_t>(peer)].assign(mine, mine + length);
    pairs.push_back({peer, to_socket_address(own[static_cast<std::size_t>(peer)]),
                     to_socket_address(theirs[static_cast<std::size_t>(peer)])});
  }
  sockets_.expect(std::move(pairs));
  // Every rank connects in the same order, so that no circle of ranks can wait for one another.
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    DABKE_RETURN_IF_ERROR(interrupted());
    connecting_to_ = peer;
    mesh_->connect(peer, theirs[static_cast<std::size_t>(peer)]);
  }
  connecting_to_ = -1;
  sockets_.adopt();
  mesh_->lift_limits();
  return Status::ok();
}

}  // namespace dabke::ops
