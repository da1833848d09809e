#include "runtime/links/tcp_liveness.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include <catch2/catch.hpp>

#include "runtime/links/network.h"
#include "runtime/links/tcp_link.h"

namespace dabke::test {
namespace {

using namespace std::chrono_literals;

struct Connection {
  Fd client;
  Fd server;
};

Connection connected() {
  Fd listener = links::tcp_listen(*links::SocketAddress::parse("127.0.0.1:0")).take();
  Connection both;
  both.client = links::tcp_connect(*links::SocketAddress::local_of(listener.get())).take();
  pollfd wait{listener.get(), POLLIN, 0};
  REQUIRE(::poll(&wait, 1, 60'000) == 1);
  both.server = links::tcp_accept(listener.get()).take();
  REQUIRE(both.server);
  return both;
}

/// Writes until nothing more fits.
void fill(int fd) {
  const std::vector<char> bytes(1 << 16);
  ssize_t sent = 0;
  do sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent > 0);
  REQUIRE(errno == EAGAIN);
}

}  // namespace

TEST_CASE("a peer that reads nothing is not silent: its host answers") {
  // The less often the host asks, the older its last answer. A result counts
  // only if this thread had its CPU time.
  Duration longest = Duration::max();
  for (int attempt = 0; attempt < 10 && longest >= 1s; ++attempt) {
    const Connection both = connected();
    links::TcpSilence silence;
    CHECK(silence.silent_for(both.client.get(), Clock::now()) == Duration::zero());
    longest = {};
    const TimePoint end = Clock::now() + 2s;
    while (Clock::now() < end) {
      fill(both.client.get());
      pollfd never{both.server.get(), 0, 0};  // lets time pass
      (void)::poll(&never, 1, 50);
      longest = std::max(longest, silence.silent_for(both.client.get(), Clock::now()));
    }
  }
  CHECK(longest < 1s);
}

TEST_CASE("a host that answers between two checks is not silent, although it owes an answer at both") {
  const TimePoint start = Clock::now();
  links::TcpSilence silence;
  CHECK(silence.observe(true, 1s, start) == Duration::zero());
  // The late check of a busy machine: the probe of before was answered, and the next is on its way.
  CHECK(silence.observe(true, 780ms, start + 800ms) == Duration::zero());
  CHECK(silence.last() == Duration::zero());
  // From here on nothing is answered.
  CHECK(silence.observe(true, 1580ms, start + 1600ms) == 800ms);
  CHECK(silence.observe(true, 2380ms, start + 2400ms) == 1600ms);
  CHECK(silence.observe(false, 0ms, start + 2500ms) == Duration::zero());
  CHECK(silence.observe(true, 90ms, start + 2600ms) == Duration::zero());
}

TEST_CASE("what is no connection is never silent") {
  links::TcpSilence silence;
  CHECK(silence.silent_for(-1, Clock::now()) == Duration::zero());
}

TEST_CASE("within a host nobody asks whether the other end is there") {
  const Connection both = connected();
  links::keep_alive(both.client.get(), 10s);
  int on = -1;
  socklen_t length = sizeof on;
  REQUIRE(::getsockopt(both.client.get(), SOL_SOCKET, SO_KEEPALIVE, &on, &length) == 0);
  CHECK(on == 0);
}

TEST_CASE("a loss that was found here is told apart from a connection that the peer has ended") {
  CHECK(links::lost_in_silence("rank 3 on b", 30).code() == Code::peer_lost);
  CHECK_THAT(links::lost_in_silence("rank 3 on b", 30).message(),
             Catch::StartsWith("lost rank 3 on b: nothing received for 30 s (DABKE_PEER_TIMEOUT_SECONDS)"));
  CHECK(links::connection_broke("rank 3 on b", "it closed the connection").code() == Code::transport);
  CHECK(links::is_silence(ETIMEDOUT));
  CHECK_FALSE(links::is_silence(ECONNRESET));
}

}  // namespace dabke::test
