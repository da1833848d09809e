// Properties of every link, whatever carries it.
#include "runtime/links/link.h"

#include <fcntl.h>
#include <poll.h>

#include <catch2/catch.hpp>
#include <thread>

#include "tests/child_process.h"
#include "tests/runtime/links/shm/pairs.h"

using namespace dabke;
using namespace dabke::test;
using Catch::Contains;

namespace {

/// A connected pair of each kind in turn.
std::unique_ptr<Pair> connected_pair() {
  const bool shared = GENERATE(false, true);
  auto pair = shared ? shm_pair() : tcp_pair();
  REQUIRE(pair);
  return pair;
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
  CHECK((seen.frames == sent));
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
  pollfd waiting{pair->b->descriptor(), POLLIN, 0};
  if (pair->b->prepare_to_sleep()) REQUIRE(::poll(&waiting, 1, 60'000) == 1);
  pair->b.reset();  // it has unread bytes, so it resets the connection
  Status status;
  for (const auto deadline = deadline_after(60); status.is_ok() && Clock::now() < deadline;) {
    status = pair->a->send(bytes_of("anybody there?"));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the kernel reports it a little later
  }
  CHECK(status.code() == Code::peer_lost);
  Collected seen;
  CHECK_THAT(drain(*pair->a, seen), Contains("sending failed"));
  CHECK(seen.frames == std::vector<std::string>{"last word"});
}

TEST_CASE("a message above the limit is refused and harms nothing") {
  const auto pair = connected_pair();
  const std::vector<std::byte> giant(links::kMaxFrameBytes + 1);
  const Status status = pair->a->send(giant);
  CHECK(status.code() == Code::invalid_argument);
  CHECK_THAT(status.message(), Contains(std::to_string(giant.size())) && Contains("rank 1"));
  REQUIRE(pair->a->send(bytes_of("small")).is_ok());
  Collected seen;
  drain(*pair->b, seen);
  CHECK(seen.frames == std::vector<std::string>{"small"});
}

TEST_CASE("a link is in the fork guard for as long as it is open") {
  auto pair = connected_pair();
  const int a = pair->a->descriptor();
  const int b = pair->b->descriptor();
  pair->a.reset();
  const int status = status_in_child([&] {
    // The number of the closed link has another owner by now. That of the open link must be closed.
    const bool reused = ::dup2(2, a) == a;
    pair->guard.close_all_in_child();
    return reused && ::fcntl(a, F_GETFD) != -1 && ::fcntl(b, F_GETFD) == -1 ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE(
    "two drivers that sleep whenever they may exchange messages of any size, and neither sleeps for ever") {
  const auto pair = connected_pair();
  constexpr std::size_t kMessages = 400;
  const auto drive = [](links::Link& link, char mark) {
    Collected seen;
    std::size_t sent = 0;
    const auto deadline = deadline_after(120);
    const auto is_done = [&] {
      return sent == kMessages && seen.frames.size() == kMessages && !link.wants_write();
    };
    while (!is_done() && Clock::now() < deadline) {
      // Each rank answers each message. Some messages are larger than what can be under way.
      while (sent < kMessages && sent <= seen.frames.size())
        if (!link.send(bytes_of(std::string(sent % 50 == 0 ? 1'000'000 : 17 * sent, mark))).is_ok())
          return false;
        else
          ++sent;
      if (!is_done() && link.prepare_to_sleep()) {
        pollfd waiting{link.descriptor(), static_cast<short>(POLLIN | (link.wants_write() ? POLLOUT : 0)), 0};
        ::poll(&waiting, 1, 20'000);
        link.woken();
      }
      link.flush();
      if (!link.receive(seen).is_ok()) return false;
    }
    return seen.frames.size() == kMessages;
  };
  bool a = false;
  std::jthread other([&] { a = drive(*pair->a, 'a'); });
  const bool b = drive(*pair->b, 'b');
  other.join();
  CHECK(a);
  CHECK(b);
}

TEST_CASE("the end of a peer that did not say so is seen by a sleeping driver") {
  const auto pair = connected_pair();
  REQUIRE(pair->a->prepare_to_sleep());
  pair->b.reset();
  pollfd waiting{pair->a->descriptor(), POLLIN, 0};
  CHECK(::poll(&waiting, 1, 60'000) == 1);
  pair->a->woken();
  Collected seen;
  CHECK(drain(*pair->a, seen) == "closed");
}

TEST_CASE("a descriptor that was passed stays for whoever takes it, however often the link is read before") {
  const auto pair = shm_pair();
  REQUIRE(pair);
  auto& from = static_cast<shm::ShmLink&>(*pair->a);
  auto& to = static_cast<shm::ShmLink&>(*pair->b);
  int pipe_ends[2];
  REQUIRE(::pipe2(pipe_ends, O_CLOEXEC) == 0);
  const Fd read_end(pipe_ends[0]);
  const Fd write_end(pipe_ends[1]);
  REQUIRE(from.send(bytes_of("one comes")).is_ok());
  REQUIRE(from.pass_descriptor(write_end.get()).is_ok());
  Collected heard;
  for (int i = 0; i < 5; ++i) REQUIRE(to.receive(heard).is_ok());
  CHECK(heard.frames == std::vector<std::string>{"one comes"});
  auto taken = to.take_descriptor(deadline_after(60));
  REQUIRE(taken.is_ok());
  CHECK(::write(taken->get(), "x", 1) == 1);
  char byte = 0;
  CHECK(::read(read_end.get(), &byte, 1) == 1);
  CHECK(byte == 'x');
}
