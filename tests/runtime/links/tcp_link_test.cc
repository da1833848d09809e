#include "runtime/links/tcp_link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>

#include "runtime/links/little_endian.h"
#include "tests/runtime/links/shm/pairs.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;

TEST_CASE("a length that is garbage, and an end in the middle of a message, are errors of the link") {
  const auto pair = tcp_pair();
  std::array<std::byte, 10> bytes{};
  const bool garbage = GENERATE(true, false);
  const std::uint32_t length = garbage ? 0xffffffffu : 100u;
  links::store_le<std::uint32_t>(length, bytes.data());
  links::store_le<std::uint32_t>(~length, bytes.data() + 4);
  REQUIRE(::send(pair->a->descriptor(), bytes.data(), bytes.size(), 0) == 10);
  pair->a->finish_sending();
  Collected seen;
  CHECK_THAT(drain(*pair->b, seen), Contains(garbage ? "4294967295 bytes" : "in the middle of a message"));
  CHECK(seen.frames.empty());
}

TEST_CASE("a link has no delay, and no user timeout on loopback") {
  const auto pair = tcp_pair();
  int value = 0;
  socklen_t length = sizeof value;
  REQUIRE(::getsockopt(pair->a->descriptor(), IPPROTO_TCP, TCP_NODELAY, &value, &length) == 0);
  CHECK(value == 1);
  REQUIRE(::getsockopt(pair->a->descriptor(), IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &length) == 0);
  CHECK(value == 0);
}
