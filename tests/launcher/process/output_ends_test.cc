#include "launcher/process/output_ends.h"
#include "tests/child_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

OutputPipe made(StdoutKind kind) {
  auto pipe = make_stdout(kind);
  REQUIRE(pipe.is_ok());
  return pipe.take();
}

/// The result of one read. If it fails, it is empty, and `error` is set.
std::string read_from(const Fd& end, int& error) {
  std::array<char, 4096> chunk;
  const ssize_t got = ::read(end.get(), chunk.data(), chunk.size());
  error = got < 0 ? errno : 0;
  return {chunk.data(), static_cast<std::size_t>(std::max<ssize_t>(0, got))};
}

}  // namespace

TEST_CASE("a rank's terminal is one, passes bytes unchanged, and ends once all has been read") {
  OutputPipe pipe = made(StdoutKind::terminal);
  CHECK(::isatty(pipe.write_end.get()) == 1);
  int error = 0;
  CHECK(read_from(pipe.read_end, error).empty());
  CHECK(error == EAGAIN);
  const std::string bytes("a\nb\r\n\t\0\x03\x04\x11\x13\x7f\xff", 14);
  REQUIRE(::write(pipe.write_end.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  CHECK(read_from(pipe.read_end, error) == bytes);
  REQUIRE(::write(pipe.write_end.get(), "last", 4) == 4);
  pipe.write_end = Fd();
  CHECK(read_from(pipe.read_end, error) == "last");
  CHECK(read_from(pipe.read_end, error).empty());
  CHECK(error == EIO);
}

TEST_CASE("a rank's terminal has the size that it is given, and is written to alone") {
  const OutputPipe pipe = made(StdoutKind::terminal_if_any);
  resize(pipe.read_end.get(), {.columns = 90, .rows = 30});
  const TerminalSize size = terminal_size(pipe.write_end.get());
  CHECK(size.columns == 90);
  CHECK(size.rows == 30);
  char byte = 0;
  CHECK(::read(pipe.write_end.get(), &byte, 1) < 0);
  CHECK(errno == EBADF);
}

TEST_CASE("making a terminal gives a session without one no controlling terminal") {
  const int status = status_in_child([] {
    ::setsid();
    const auto pipe = make_stdout(StdoutKind::terminal);
    return pipe.is_ok() && ::open("/dev/tty", O_RDWR) < 0 ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE("a rank gets a pipe where it is to have one") {
  CHECK(::isatty(made(StdoutKind::pipe).write_end.get()) == 0);
}

}  // namespace dabke::test
