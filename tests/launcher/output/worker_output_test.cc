#include "launcher/output/worker_output.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

const std::string kErase = "\r\x1b[K";

/// A console whose two streams are one terminal or one pipe, which the test reads.
class Screen {
 public:
  enum class Kind { terminal, pipe };

  explicit Screen(Kind kind = Kind::terminal, bool may_erase = true) {
    kind == Kind::terminal ? open_terminal() : open_pipe();
    console_.emplace(writer_.get(), writer_.get(), may_erase);
  }

  Console& console() { return *console_; }

  /// The output since the last call.
  std::string shown() {
    for (std::vector<pollfd> entries; !console_->is_drained(); entries.clear()) {
      console_->add_poll_entries(entries);
      REQUIRE(::poll(entries.data(), entries.size(), -1) > 0);
      for (const pollfd& entry : entries) console_->handle(entry);
    }
    // A terminal delivers what was written a little later, and in parts.
    constexpr char kEnd = '\a';
    REQUIRE(::write(writer_.get(), &kEnd, 1) == 1);
    std::string text;
    while (!text.ends_with(kEnd)) {
      pollfd entry{reader_.get(), POLLIN, 0};
      REQUIRE(::poll(&entry, 1, -1) > 0);
      std::array<char, 4096> chunk;
      const ssize_t got = ::read(reader_.get(), chunk.data(), chunk.size());
      REQUIRE((got > 0 || errno == EAGAIN));
      if (got > 0) text.append(chunk.data(), static_cast<std::size_t>(got));
    }
    text.pop_back();
    return text;
  }

 private:
  void open_terminal() {
    reader_ = Fd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    std::array<char, 64> name;
    REQUIRE((::grantpt(reader_.get()) == 0 && ::unlockpt(reader_.get()) == 0 &&
             ::ptsname_r(reader_.get(), name.data(), name.size()) == 0));
    writer_ = Fd(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    termios modes{};
    REQUIRE(::tcgetattr(writer_.get(), &modes) == 0);
    ::cfmakeraw(&modes);
    REQUIRE(::tcsetattr(writer_.get(), TCSANOW, &modes) == 0);
  }
  void open_pipe() {
    std::array<int, 2> ends;
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    reader_ = Fd(ends[0]);
    writer_ = Fd(ends[1]);
  }

  Fd reader_, writer_;
  std::optional<Console> console_;
};

WorkerOutput output_of(int rank, OutputStyle style = {}) {
  return WorkerOutput(Fd(), rank, Console::Stream::out, style);
}

}  // namespace

TEST_CASE(
    "an unfinished line is shown after a while on a terminal, with its prefix once, and goes on there") {
  Screen screen;
  WorkerOutput output = output_of(0);
  std::vector<std::string> watched;
  output.watch([&](std::string_view line) { watched.emplace_back(line); });
  output.take(screen.console(), "one\nname? ");
  CHECK(screen.shown() == "[0]<stdout>:one\n");
  const TimePoint due = output.release_at();
  CHECK(due != kNever);
  output.take(screen.console(), "(Bob) ");
  CHECK(output.release_at() == due);  // the deadline stays, however much more arrives
  output.release(screen.console());
  CHECK(screen.shown() == "[0]<stdout>:name? (Bob) ");
  CHECK(output.release_at() == kNever);
  output.take(screen.console(), "Al");
  CHECK(screen.shown() == "Al");
  output.take(screen.console(), "ice\ntwo");
  CHECK(screen.shown() == "ice\n");
  CHECK(output.release_at() != kNever);
  output.close(screen.console());
  CHECK(screen.shown() == "[0]<stdout>:two\n");
  CHECK(watched == std::vector<std::string>{"one\n", "name? (Bob) Alice\n", "two\n"});
}

TEST_CASE("an unfinished line is shown nowhere but on a terminal") {
  Screen screen(Screen::Kind::pipe);
  WorkerOutput output = output_of(0);
  output.take(screen.console(), "name? ");
  CHECK(output.release_at() == kNever);
  output.take(screen.console(), "yes\n");
  CHECK(screen.shown() == "[0]<stdout>:name? yes\n");
}

TEST_CASE("a line of another rank ends an unfinished one, whose rest has its prefix again") {
  Screen screen;
  WorkerOutput first = output_of(0), second = output_of(1);
  first.take(screen.console(), "name? ");
  first.release(screen.console());
  second.take(screen.console(), "hello\n");
  CHECK(screen.shown() == "[0]<stdout>:name? \n[1]<stdout>:hello\n");
  const TimePoint before = Clock::now();
  first.take(screen.console(), "Bob");
  CHECK(first.release_at() > before);
  first.release(screen.console());
  screen.console().write(Console::Stream::error, "dabkerun: something\n");
  CHECK(screen.shown() == "[0]<stdout>:Bob\ndabkerun: something\n");
  first.take(screen.console(), "\n");  // the line has been ended already
  second.take(screen.console(), "bye\n");
  CHECK(screen.shown() == "[1]<stdout>:bye\n");
}

TEST_CASE("ranks that write into unfinished lines end each other's more and more seldom") {
  Screen screen;
  WorkerOutput outputs[] = {output_of(0), output_of(1)};
  Duration wait{};
  for (int round = 0; round < 10; ++round) {
    for (WorkerOutput& output : outputs) {
      const TimePoint now = Clock::now();
      output.take(screen.console(), ".");
      wait = output.release_at() - now;
      output.release(screen.console());
    }
  }
  CHECK(wait > std::chrono::seconds(10));
  outputs[1].take(screen.console(), "\n.");
  CHECK(outputs[1].release_at() - Clock::now() < std::chrono::seconds(1));
}

TEST_CASE("what is typed behind an unfinished line ends it, and what comes then has its prefix") {
  Screen screen;
  WorkerOutput output = output_of(0);
  output.take(screen.console(), "name? ");
  output.release(screen.console());
  CHECK(screen.shown() == "[0]<stdout>:name? ");
  screen.console().take_typed_line();
  output.take(screen.console(), "hello Bob\n");
  CHECK(screen.shown() == "[0]<stdout>:hello Bob\n");
}

TEST_CASE("a pinned table is below an unfinished line, and what comes then has its prefix above the table") {
  Screen screen;
  WorkerOutput output = output_of(0);
  output.take(screen.console(), "name? ");
  output.release(screen.console());
  CHECK(screen.shown() == "[0]<stdout>:name? ");
  screen.console().pin({"table"});
  CHECK(screen.shown() == "\ntable\n");
  output.take(screen.console(), "Bob\n");
  CHECK(screen.shown() == "\x1b[1A\r\x1b[J[0]<stdout>:Bob\ntable\n");
}

TEST_CASE("a progress bar is drawn in place, and gives way to other ranks until it is drawn again or ends") {
  Screen screen;
  WorkerOutput bar = output_of(0), other = output_of(1);
  bar.take(screen.console(), "\r10%");
  CHECK(screen.shown() == "[0]<stdout>:\r");
  bar.release(screen.console());
  bar.take(screen.console(), "\r20%");
  bar.release(screen.console());
  CHECK(screen.shown() == "[0]<stdout>:10%\r[0]<stdout>:20%");
  other.take(screen.console(), "hello\n");
  CHECK(screen.shown() == kErase + "[1]<stdout>:hello\n");
  SECTION("drawn again") {
    bar.take(screen.console(), "\r30%");
    bar.release(screen.console());
    CHECK(screen.shown() == "[0]<stdout>:20%\r[0]<stdout>:30%");
    screen.console().write(Console::Stream::error, "dabkerun: something\n");
    CHECK(screen.shown() == "\ndabkerun: something\n");
  }
  SECTION("ends") {
    bar.close(screen.console());
    CHECK(screen.shown() == "[0]<stdout>:20%\n");
  }
}

TEST_CASE("a line that ended with a carriage return leaves nothing in the next one of another rank") {
  const bool may_erase = GENERATE(false, true);
  Screen screen(Screen::Kind::terminal, may_erase);
  WorkerOutput bar = output_of(0), other = output_of(1);
  bar.take(screen.console(), "a long progress bar\r");
  bar.release(screen.console());
  other.take(screen.console(), "hello\n");
  CHECK(screen.shown() ==
        "[0]<stdout>:a long progress bar\r" + (may_erase ? kErase : "") + "[1]<stdout>:hello\n");
}

TEST_CASE("without a prefix bytes come out as they were written, and the launcher's own lines begin anew") {
  Screen screen(Screen::Kind::pipe);
  WorkerOutput first = output_of(0, {.prefix = false}), second = output_of(1, {.prefix = false});
  first.take(screen.console(), "a\nlast");
  first.close(screen.console());
  CHECK(screen.shown() == "a\nlast");
  second.take(screen.console(), "x\r\ny");
  second.close(screen.console());
  CHECK(screen.shown() == "x\r\ny");
  screen.console().write(Console::Stream::error, "dabkerun: something\n");
  CHECK(screen.shown() == "\ndabkerun: something\n");
}

TEST_CASE("without a prefix, on a terminal, no line is of two ranks all the same") {
  Screen screen;
  WorkerOutput first = output_of(0, {.prefix = false}), second = output_of(1, {.prefix = false});
  first.take(screen.console(), "name? ");
  first.release(screen.console());
  second.take(screen.console(), "hello\n");
  first.take(screen.console(), "Bob\n");
  CHECK(screen.shown() == "name? \nhello\nBob\n");
}

TEST_CASE("a line may be shown shorter than it is, though not to watchers, and not without a prefix") {
  for (const bool has_prefix : {true, false}) {
    Screen screen(Screen::Kind::pipe);
    WorkerOutput output = output_of(0, {.prefix = has_prefix});
    std::vector<std::string> watched;
    output.watch([&](std::string_view line) { watched.emplace_back(line); });
    output.shorten_by([](std::string_view line) { return std::string(line.substr(0, 3)) + "\n"; });
    output.take(screen.console(), "something\n");
    CHECK(screen.shown() == (has_prefix ? "[0]<stdout>:som\n" : "something\n"));
    CHECK(watched == std::vector<std::string>{"something\n"});
  }
}

}  // namespace dabke::test
