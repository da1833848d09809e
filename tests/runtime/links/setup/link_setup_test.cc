#include "runtime/links/setup/link_setup.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <random>

#include "runtime/links/tcp_link.h"
#include "runtime/store/init_failure.h"
#include "tests/patience.h"
#include "tests/run_ranks.h"
#include "tests/runtime/links/ranks.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;
using namespace std::chrono_literals;

namespace {

const links::SocketAddress kLoopback = links::SocketAddress::parse("127.0.0.1:0").take();

struct Opened {
  Status status;
  std::vector<std::unique_ptr<links::Link>> links;
};

struct Change {
  Duration limit = 60s;
  Duration patience = 10s;
  links::SocketAddress listen_at = kLoopback;
};

Opened open_links(const World& world, std::vector<Rank> neighbours, std::shared_ptr<store::Store> store,
                  ForkGuard& guard, const Change& change = {}) {
  auto links = dabke::links::open_links({.world = world,
                                         .neighbours = neighbours,
                                         .listen_at = change.listen_at,
                                         .store = std::move(store),
                                         .guard = guard,
                                         .log = Log(),
                                         .deadline = Clock::now() + change.limit,
                                         .client_patience = change.patience});
  if (!links.is_ok()) return {links.status(), {}};
  return {{}, links.take()};
}

class Collected final : public links::FrameSink {
 public:
  void on_frame(std::span<const std::byte> frame) override { frames.push_back(text_of(frame)); }
  std::vector<std::string> frames;
};

/// Receives until `count` frames have come or the link ends. Returns the error, if any.
std::string receive_frames(links::Link& link, Collected& sink, std::size_t count) {
  const auto deadline = Clock::now() + 60s;
  while (sink.frames.size() < count && Clock::now() < deadline) {
    pollfd waiting{link.descriptor(), static_cast<short>(POLLIN | (link.wants_write() ? POLLOUT : 0)), 0};
    ::poll(&waiting, 1, 100);
    link.flush();
    const auto received = link.receive(sink);
    if (!received.is_ok()) return received.status().message();
    if (*received == links::Link::Received::closed) return "closed";
  }
  return "";
}

/// A plain client of rank 0's listener, whose address is in the store.
Fd client_of(store::Store& store) {
  const auto address = links::SocketAddress::parse(*store.get("links/0", Clock::now() + 60s)).take();
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(fd.get(), address.get(), address.length()) == 0 ? std::move(fd) : Fd();
}

}  // namespace

TEST_CASE("four ranks link to each other in a full mesh and talk in both directions") {
  const auto address = GENERATE(as<std::string>(), "127.0.0.1:0", "[::1]:0");
  const auto store = store::make_memory_store();
  const auto before = open_descriptors();
  const auto seen = run_ranks(4, [&](Rank self) {
    ForkGuard guard;
    auto opened = open_links(world_of(self, 4), all_but(self, 4), store, guard,
                             {.listen_at = *links::SocketAddress::parse(address)});
    std::string text = opened.status.message();
    for (auto& link : opened.links) {
      if (!link->send(bytes_of(fmt::format("{} to {}", self, link->peer().rank))).is_ok())
        text += "send failed";
    }
    for (auto& link : opened.links) {
      Collected sink;
      text += receive_frames(*link, sink, 1);
      text += fmt::format("[{}]", fmt::join(sink.frames, "|"));
    }
    return text;
  });
  CHECK(seen == std::vector<std::string>{"[1 to 0][2 to 0][3 to 0]", "[0 to 1][2 to 1][3 to 1]",
                                         "[0 to 2][1 to 2][3 to 2]", "[0 to 3][1 to 3][2 to 3]"});
  CHECK(open_descriptors() == before);
}

TEST_CASE("garbage, silent, half-open and vanishing clients keep no rank out") {
  const auto store = store::make_memory_store();
  std::atomic<bool> strangers_there = false;
  const auto seen = run_ranks(3, [&](Rank self) -> std::string {
    ForkGuard guard;
    if (self == 2) {  // the strangers come first, and rank 1 only once all of them are connected
      std::vector<Fd> strangers;
      std::mt19937 random(5);
      for (int i = 0; i < 200; ++i) {
        Fd client = client_of(*store);
        if (!client) return "a stranger could not connect";
        std::vector<std::byte> noise(i % 300);
        for (auto& byte : noise) byte = static_cast<std::byte>(random());
        const auto hello = links::Handshake::connect(self_of(world_of(1, 2)), 0).take();
        const auto real = hello.outgoing();
        if (i % 5 == 1) (void)::send(client.get(), noise.data(), noise.size(), MSG_NOSIGNAL);
        if (i % 5 == 2)
          (void)::send(client.get(), real.data(), real.size() / 2, MSG_NOSIGNAL);  // nothing after that
        // no proof after that
        if (i % 5 == 3) (void)::send(client.get(), real.data(), real.size(), MSG_NOSIGNAL);
        if (i % 5 == 4) client = Fd();
        strangers.push_back(std::move(client));
      }
      strangers_there = true;
      strangers_there.notify_all();
      const auto until = Clock::now() + 100s;
      while (!store->get("met", Clock::now() + 100ms).is_ok() && Clock::now() < until) {
      }
      return "";
    }
    if (self == 1) strangers_there.wait(false);
    const auto begun = Clock::now();
    // A rank that waited for more from a stranger would be late.
    auto opened = open_links(world_of(self, 2), {1 - self}, store, guard, {.limit = 100s, .patience = 60s});
    if (!opened.status.is_ok()) return opened.status.message();
    if (self == 1 && Clock::now() - begun > 30s) return "it took too long";
    (void)opened.links[0]->send(bytes_of("hello"));
    Collected sink;
    const auto end = receive_frames(*opened.links[0], sink, 1);
    (void)store->set("met", "yes");
    return sink.frames.empty() ? end : sink.frames[0];
  });
  CHECK(seen == std::vector<std::string>{"hello", "hello", ""});
}

TEST_CASE("a client that stays silent is dropped after a while") {
  const auto seen = with_enough_time(
      2,
      [](double seconds) {
        const auto store = store::make_memory_store();
        std::atomic<bool> is_over = false;  // its end drops the client, too
        return run_ranks(2, [&](Rank self) -> std::string {
          ForkGuard guard;
          if (self == 0) {
            const Change impatient{.limit = seconds_to_duration(seconds), .patience = 50ms};
            const auto opened = open_links(world_of(0, 2), {1}, store, guard, impatient);
            is_over = true;
            return opened.status.message();
          }
          const Fd client = client_of(*store);
          char byte = 0;
          const auto got = ::recv(client.get(), &byte, 1, 0);
          return got == 0 && !is_over ? "closed in time" : "not closed";
        });
      },
      [](const auto& said) { return said[1] == "closed in time"; });
  CHECK(seen[1] == "closed in time");
  CHECK_THAT(seen[0],
             Contains("rank 1 on host-a (it has not connected)") && Contains("did not authenticate in time"));
}

TEST_CASE("a connection that is not answered is given up, and another one tried") {
  const auto store = store::make_memory_store();
  const Fd silent = links::tcp_listen(kLoopback).take();
  const auto address = links::SocketAddress::local_of(silent.get()).take().to_string();
  REQUIRE(store->set("links/0", address).is_ok());
  ForkGuard guard;
  int tries = 0;
  const auto status = with_enough_time(
      2,
      [&](double seconds) {
        const Change impatient{.limit = seconds_to_duration(seconds), .patience = 50ms};
        const Status ended = open_links(world_of(1, 2), {0}, store, guard, impatient).status;
        tries = 0;
        while (const Fd client = links::tcp_accept(silent.get()).take()) ++tries;
        return ended;
      },
      [&](const Status&) { return tries > 1; });
  CHECK_THAT(status.message(), Contains(address + ": no answer within 0.05 s"));
  CHECK(tries > 1);
}

TEST_CASE("a rank with another key, job or epoch is told so at once, and the other waits on") {
  const auto store = store::make_memory_store();
  auto wrong = world_of(1, 2);
  std::string needle;
  SECTION("key") {
    wrong.job_key[0] = std::byte{0};
    needle = "DABKE_JOB_KEY";
  }
  SECTION("job") {
    wrong.job_id[0] = std::byte{0};
    needle = "rank 1 belongs to job 0007";
  }
  SECTION("epoch") {
    wrong.epoch = 2;
    needle = "rank 1 is in epoch 2 of the job, rank 0 in epoch 1";
  }
  const auto seen = run_ranks(3, [&](Rank self) {
    ForkGuard guard;
    if (self == 0) return open_links(world_of(0, 2), {1}, store, guard).status;
    if (self == 1) {
      const Status status = open_links(wrong, {0}, store, guard).status;
      (void)store->set("refused", "yes");
      return status;
    }
    (void)store->get("refused", Clock::now() + 60s);
    return open_links(world_of(1, 2), {0}, store, guard).status;
  });
  CHECK(seen[0].is_ok());
  CHECK((seen[1].code() == Code::mismatch || seen[1].code() == Code::transport));
  CHECK_THAT(seen[1].message(),
             Contains("rank 1 cannot link to rank 0 on host-a at 127.0.0.1:") && Contains(needle));
  CHECK(seen[2].is_ok());
}

TEST_CASE("ranks that are missing at the deadline are named with their hosts and what to do") {
  const auto store = store::make_memory_store();
  auto world = world_of(1, 4);
  world.hosts = {"host-a", "host-b", "host-c", "host-d"};
  ForkGuard guard;
  const Fd taken = links::tcp_listen(kLoopback).take();
  const auto port = links::SocketAddress::local_of(taken.get()).take();
  const auto closed = [&] {  // a port without a listener
    const Fd fd = links::tcp_listen(address_of_our_own()).take();
    return links::SocketAddress::local_of(fd.get()).take();
  }();
  const auto message_with = [&](const std::string& text) {
    return with_enough_time(
        0.2,
        [&](double seconds) {
          return open_links(world, {0}, store, guard, {.limit = seconds_to_duration(seconds)})
              .status.message();
        },
        [&](const std::string& message) { return message.find(text) != message.npos; });
  };
  SECTION("no address") {
    const auto status = open_links(world, {0, 3}, store, guard, {.limit = 100ms}).status;
    CHECK(status.code() == Code::timeout);
    CHECK_THAT(status.message(), Contains("rank 1 has no link to rank 0 on host-a (its address is not in the "
                                          "store), rank 3 on host-d (it has not connected)") &&
                                     Contains("DABKE_START_TIMEOUT_SECONDS"));
  }
  SECTION("a rank that gave up itself has said for whom it waited") {
    store::report_init_failure(*store, 0, {Code::timeout, "rank 0 has no link to rank 2 on host-c"});
    const auto status = open_links(world, {0}, store, guard, {.limit = 100ms}).status;
    CHECK_THAT(status.message(), Contains("rank 1 has no link to rank 0 on host-a") &&
                                     Contains("(rank 0 gave up: rank 0 has no link to rank 2 on host-c)"));
  }
  SECTION("nobody listens") {
    REQUIRE(store->set("links/0", closed.to_string()).is_ok());
    CHECK_THAT(message_with("Connection refused"), Contains("Connection refused"));
  }
  SECTION("nobody answers") {
    REQUIRE(store->set("links/0", port.to_string()).is_ok());
    const std::string text = port.to_string() + " does not answer";
    CHECK_THAT(message_with(text), Contains(text));
  }
}

TEST_CASE("a rank without neighbours has no listener and no links") {
  const auto store = store::make_memory_store();
  ForkGuard guard;
  CHECK(open_links(world_of(0, 1), {}, store, guard).status.is_ok());
  CHECK_FALSE(store->get("links/0", Clock::now()).is_ok());
}

TEST_CASE("the listener is bound to the chosen address only, and every descriptor is closed on exec") {
  const Fd listener = links::tcp_listen(kLoopback).take();
  CHECK_THAT(links::SocketAddress::local_of(listener.get())->to_string(), Catch::StartsWith("127.0.0.1:"));
  const auto address = links::SocketAddress::local_of(listener.get()).take();
  const Fd client = links::tcp_connect(address).take();
  pollfd comes{listener.get(), POLLIN, 0};
  REQUIRE(::poll(&comes, 1, 60'000) == 1);
  const Fd server = links::tcp_accept(listener.get()).take();
  REQUIRE(server);
  for (const int fd : {listener.get(), client.get(), server.get()}) {
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK((::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
  }
}
