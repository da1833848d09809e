#include "runtime/transport/tcp_link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>

#include "runtime/transport/little_endian.h"
#include "tests/runtime/transport/ranks.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;

namespace {

struct Pair {
  ForkGuard guard;
  std::unique_ptr<TcpLink> a, b;
};

std::unique_ptr<Pair> connected_pair() {
  auto pair = std::make_unique<Pair>();
  const Fd listener = tcp_listen(SocketAddress::parse("127.0.0.1:0").take()).take();
  Fd client = tcp_connect(SocketAddress::local_of(listener.get()).take()).take();
  pollfd waiting{listener.get(), POLLIN, 0};
  REQUIRE(::poll(&waiting, 1, 10'000) == 1);
  Fd server = tcp_accept(listener.get()).take();
  REQUIRE(server);
  pair->a = std::make_unique<TcpLink>(GuardedFd(std::move(client), pair->guard), LinkPeer{.rank = 1},
                                      Duration::zero());
  pair->b = std::make_unique<TcpLink>(GuardedFd(std::move(server), pair->guard), LinkPeer{.rank = 0},
                                      Duration::zero());
  return pair;
}

class Collected final : public FrameSink {
 public:
  void on_frame(std::span<const std::byte> frame) override { frames.push_back(text_of(frame)); }
  std::vector<std::string> frames;
};

/// Moves bytes until `link` has nothing more to receive for a while; how it ended.
std::string drain(Link& link, FrameSink& sink, Link* sender = nullptr) {
  while (true) {
    if (sender != nullptr) sender->flush();
    pollfd waiting{link.descriptor(), POLLIN, 0};
    if (::poll(&waiting, 1, 100) == 0) return "open";
    const auto received = link.receive(sink);
    if (!received.is_ok()) return received.status().message();
    if (*received == Link::Received::closed) return "closed";
  }
}

}  // namespace

TEST_CASE("messages of every size arrive whole and in order, though the socket takes them in parts") {
  const auto pair = connected_pair();
  std::vector<std::string> sent;
  for (int i = 0; i < 300; ++i)
    sent.push_back(std::string(static_cast<std::size_t>(i * i * 7), static_cast<char>('a' + i % 26)));
  for (const auto& frame : sent) REQUIRE(pair->a->send(bytes_of(frame)).is_ok());
  CHECK(pair->a->wants_write());  // 63 MB do not fit into a socket
  Collected seen;
  CHECK(drain(*pair->b, seen, pair->a.get()) == "open");
  CHECK(seen.frames == sent);
  CHECK_FALSE(pair->a->wants_write());
  CHECK(pair->a->all_arrived());
}

TEST_CASE("the end of a link comes after its last message") {
  const auto pair = connected_pair();
  REQUIRE(pair->a->send(bytes_of("goodbye")).is_ok());
  pair->a->finish_sending();
  Collected seen;
  CHECK(drain(*pair->b, seen) == "closed");
  CHECK(seen.frames == std::vector<std::string>{"goodbye"});
}

TEST_CASE("what the peer sent before it broke the link is still received, even when sending fails first") {
  const auto pair = connected_pair();
  REQUIRE(pair->a->send(bytes_of("unread")).is_ok());
  REQUIRE(pair->b->send(bytes_of("last word")).is_ok());
  const int unread = pair->b->descriptor();
  pollfd waiting{unread, POLLIN, 0};
  REQUIRE(::poll(&waiting, 1, 10'000) == 1);
  pair->b.reset();  // with unread bytes, so it resets the connection
  Status status;
  for (int i = 0; i < 1000 && status.is_ok(); ++i) status = pair->a->send(bytes_of("anybody there?"));
  CHECK(status.code() == Code::peer_lost);
  Collected seen;
  CHECK_THAT(drain(*pair->a, seen), Contains("sending failed"));
  CHECK(seen.frames == std::vector<std::string>{"last word"});
}

TEST_CASE("a message above the limit is refused and harms nothing") {
  const auto pair = connected_pair();
  const std::vector<std::byte> giant(kMaxFrameBytes + 1);
  const Status status = pair->a->send(giant);
  CHECK(status.code() == Code::invalid_argument);
  CHECK_THAT(status.message(), Contains(std::to_string(giant.size())) && Contains("rank 1"));
  REQUIRE(pair->a->send(bytes_of("small")).is_ok());
  Collected seen;
  drain(*pair->b, seen);
  CHECK(seen.frames == std::vector<std::string>{"small"});
}

TEST_CASE("a length that is garbage, and an end in the middle of a message, are errors of the link") {
  const auto pair = connected_pair();
  std::array<std::byte, 6> bytes{};
  const bool garbage = GENERATE(true, false);
  store_le<std::uint32_t>(garbage ? 0xffffffffu : 100u, bytes.data());
  REQUIRE(::send(pair->a->descriptor(), bytes.data(), bytes.size(), 0) == 6);
  pair->a->finish_sending();
  Collected seen;
  CHECK_THAT(drain(*pair->b, seen), Contains(garbage ? "4294967295 bytes" : "in the middle of a message"));
  CHECK(seen.frames.empty());
}

TEST_CASE("a link is in the fork guard for as long as it is open") {
  auto pair = connected_pair();
  const int a = pair->a->descriptor();
  const int b = pair->b->descriptor();
  pair->a.reset();
  const pid_t child = ::fork();
  if (child == 0) {
    // The number of the closed link belongs to somebody else by now; that of the open one must go.
    const bool reused = ::dup2(2, a) == a;
    pair->guard.close_all_in_child();
    ::_exit(reused && ::fcntl(a, F_GETFD) != -1 && ::fcntl(b, F_GETFD) == -1 ? 0 : 1);
  }
  int result = -1;
  REQUIRE(::waitpid(child, &result, 0) == child);
  CHECK(result == 0);
}

TEST_CASE("a link has no delay, and no user timeout on loopback") {
  const auto pair = connected_pair();
  int value = 0;
  socklen_t length = sizeof value;
  REQUIRE(::getsockopt(pair->a->descriptor(), IPPROTO_TCP, TCP_NODELAY, &value, &length) == 0);
  CHECK(value == 1);
  REQUIRE(::getsockopt(pair->a->descriptor(), IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &length) == 0);
  CHECK(value == 0);
}
