#include "ops/gloo/pair_sockets.h"

#include <fmt/format.h>

#include <vector>

#include <arpa/inet.h>

#include <catch2/catch.hpp>
#include "runtime/base/threads/owned.h"
#include "runtime/links/tcp_link.h"

namespace dabke::test {
namespace {

using std::chrono_literals::operator""s;

}  // namespace

TEST_CASE("of several connections that are broken those are to blame that gloo names") {
  ForkGuard guard;
  ops::PairSockets sockets(guard, 3s);
  std::vector<Fd> listeners, clients;
  std::vector<ops::PairSockets::Pair> pairs;
  for (int peer = 0; peer < 3; ++peer) {
    listeners.push_back(links::tcp_listen(*links::SocketAddress::parse("127.0.0.1:0")).take());
    const auto listener = *links::SocketAddress::local_of(listeners.back().get());
    clients.push_back(links::tcp_connect(listener).take());
    pairs.push_back({peer, *links::SocketAddress::local_of(clients.back().get()), listener});
  }
  sockets.expect(pairs);
  sockets.adopt();
  const auto port = [&](int peer) { return htons(pairs[static_cast<std::size_t>(peer)].peer.port()); };
  const auto timed_out = [&](int peer) {
    return fmt::format("Read error [127.0.0.1]:{}: Connection timed out", port(peer));
  };
  CHECK(sockets.broken(timed_out(1)).empty());
  clients[0] = Fd();
  clients[1] = Fd();
  CHECK(sockets.broken(timed_out(1)) == std::vector<int>{1});
  CHECK(sockets.broken(timed_out(0)) == std::vector<int>{0});
  CHECK(sockets.broken(timed_out(2)) == std::vector<int>{0, 1});  // connection 2 is whole
  CHECK(sockets.broken("Connection timed out") == std::vector<int>{0, 1});
  // A port that only begins with the same digits.
  CHECK(sockets.broken(fmt::format("[127.0.0.1]:{}9: Connection timed out", port(1))) ==
        std::vector<int>{0, 1});
}

}  // namespace dabke::test
