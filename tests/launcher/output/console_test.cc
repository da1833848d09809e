#include "launcher/output/console.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include <catch2/catch.hpp>

#include "runtime/base/threads/owned.h"

namespace dabke::test {
using namespace launcher;
namespace {

struct Ends {
  Fd reader, writer;
};

Ends make_pipe() {
  std::array<int, 2> ends;
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

Ends make_sockets() {
  std::array<int, 2> ends;
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

Ends make_terminal() {
  Fd reader(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  std::array<char, 64> name;
  REQUIRE((::grantpt(reader.get()) == 0 && ::unlockpt(reader.get()) == 0 &&
           ::ptsname_r(reader.get(), name.data(), name.size()) == 0));
  Fd writer(::open(name.data(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  REQUIRE(writer);
  return {std::move(reader), std::move(writer)};
}

bool blocks(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

/// Fills the descriptor as another writer would.
void fill(int fd) {
  REQUIRE(::fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  const std::array<char, 4096> zeros{};
  for (std::size_t size = zeros.size(); size != 0;) {
    if (::write(fd, zeros.data(), size) < 0) size /= 2;
  }
  REQUIRE(::fcntl(fd, F_SETFL, 0) == 0);
}

}  // namespace

TEST_CASE("what is full after all does not hold up the console, and whoever shares it sees no difference") {
  const auto make = GENERATE(&make_pipe, &make_sockets, &make_terminal);
  const Ends out = make();
  const Fd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Console console(out.writer.get(), null.get(), true);
  CHECK(blocks(out.writer.get()));
  ::alarm(60);  // if the console waits here, it waits for ever
  do {          // a full terminal may have room again once it has passed on its data
    fill(out.writer.get());
    console.write(Console::Stream::out, "one line more\n");
    std::vector<pollfd> entries;
    console.add_poll_entries(entries);
    REQUIRE(entries.size() == 1);
    entries[0].revents = POLLOUT;  // an old answer: another writer has taken the room since
    console.handle(entries[0]);
  } while (console.is_drained());
  ::alarm(0);
  CHECK(console.take_error().empty());
}

}  // namespace dabke::test
