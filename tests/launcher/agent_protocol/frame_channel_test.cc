#include "launcher/agent_protocol/frame_channel.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

struct Sockets {
  Fd ours, theirs;
};

Sockets pair_of_sockets() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

FrameChannel channel_over(Fd socket) {
  Fd copy(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 3));
  return FrameChannel(std::move(copy), std::move(socket));
}

void write_all(const Fd& socket, std::string_view bytes) {
  REQUIRE(::write(socket.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

}  // namespace

TEST_CASE("frames come out whole and in order, whatever pieces they come in") {
  Sockets sockets = pair_of_sockets();
  FrameChannel channel = channel_over(std::move(sockets.ours));
  const std::string_view bytes("\3\0\0\0\7abc\0\0\0\0\x40", 13);
  std::string seen;
  for (const char byte : bytes) {
    write_all(sockets.theirs, {&byte, 1});
    REQUIRE(channel.read());
    while (const auto frame = channel.next())
      seen += std::to_string(frame->kind) + ":" + std::string(frame->content) + ";";
  }
  CHECK(seen == "7:abc;64:;");
}

TEST_CASE("what is sent is what the other end reads") {
  Sockets sockets = pair_of_sockets();
  FrameChannel ours = channel_over(std::move(sockets.ours));
  FrameChannel theirs = channel_over(std::move(sockets.theirs));
  const std::string content("a\0\n\xff", 4);
  ours.send(200, content);
  REQUIRE(theirs.read());
  const auto frame = theirs.next();
  REQUIRE(frame);
  CHECK(frame->kind == 200);
  CHECK(frame->content == content);
  CHECK_FALSE(theirs.next());
}

TEST_CASE("what the other end does not read waits, and the sender does not") {
  Sockets sockets = pair_of_sockets();
  FrameChannel ours = channel_over(std::move(sockets.ours));
  FrameChannel theirs = channel_over(std::move(sockets.theirs));
  const std::string large(std::size_t{4} << 20, 'x');
  ours.send(1, large);
  CHECK(ours.waiting() > 0);
  std::vector<pollfd> entries;
  ours.add_poll_entries(entries);
  CHECK(entries.size() == 2);  // one to read, and one to write
  std::optional<FrameChannel::Frame> frame;
  while (!frame) {
    ours.flush();
    REQUIRE(theirs.read());
    frame = theirs.next();
  }
  CHECK(frame->content == large);
  CHECK(ours.waiting() == 0);
}

TEST_CASE("a length that no frame has breaks the channel, and the memory for it is not taken") {
  Sockets sockets = pair_of_sockets();
  FrameChannel channel = channel_over(std::move(sockets.ours));
  write_all(sockets.theirs, std::string_view("\xff\xff\xff\xff\1", 5));
  REQUIRE(channel.read());
  CHECK_FALSE(channel.next());
  CHECK(channel.is_broken());
}

TEST_CASE("the end of the other side is seen, and what waits for it is dropped") {
  Sockets sockets = pair_of_sockets();
  FrameChannel channel = channel_over(std::move(sockets.ours));
  sockets.theirs = Fd();
  ::signal(SIGPIPE, SIG_IGN);
  channel.send(1, "lost");
  CHECK(channel.waiting() == 0);
  CHECK_FALSE(channel.read());
}

}  // namespace dabke::test
