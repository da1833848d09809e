#include "launcher/output/line_splitter.h"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

using Lines = std::vector<std::string>;

/// The lines of a stream that arrives in these pieces and then ends.
Lines split(const std::vector<std::string>& pieces, std::size_t longest = 1 << 20,
            LineSplitter::Ends ends = LineSplitter::Ends::completed) {
  Lines lines;
  const auto sink = [&](std::string_view line, std::size_t) { lines.emplace_back(line); };
  LineSplitter splitter(ends, longest);
  for (const std::string& piece : pieces) splitter.push(piece, sink);
  splitter.finish(sink);
  return lines;
}

}  // namespace

TEST_CASE("a line is whole however its bytes arrive") {
  CHECK(split({"ab\ncd\n"}) == Lines{"ab\n", "cd\n"});
  CHECK(split({"a", "b", "\nc", "d", "\n"}) == Lines{"ab\n", "cd\n"});
  CHECK(split({"\n\n"}) == Lines{"\n", "\n"});
  CHECK(split({}).empty());
}

TEST_CASE("a last line without newline gets one") { CHECK(split({"a\nb"}) == Lines{"a\n", "b\n"}); }

TEST_CASE(
    "a progress bar is split at carriage returns, and a carriage return before a newline stays with it") {
  CHECK(split({"10%\r20%\rdone\n"}) == Lines{"10%\r", "20%\r", "done\n"});
  CHECK(split({"a\r\nb\r\n"}) == Lines{"a\r\n", "b\r\n"});
  CHECK(split({"a\r", "\nb\r", "c\n"}) == Lines{"a\r\n", "b\r", "c\n"});
  CHECK(split({"a\r"}) == Lines{"a\r"});
  CHECK(split({"\r\r\n\r"}) == Lines{"\r", "\r\n", "\r"});
}

TEST_CASE("a carriage return at the end of what arrived is held until it is released") {
  Lines lines;
  const auto sink = [&](std::string_view line, std::size_t) { lines.emplace_back(line); };
  LineSplitter splitter(LineSplitter::Ends::completed);
  splitter.push("50%\r", sink);
  CHECK(splitter.holds_carriage_return());
  CHECK(lines.empty());
  splitter.release(sink);
  CHECK_FALSE(splitter.holds_carriage_return());
  splitter.push("\n", sink);
  CHECK(lines == Lines{"50%\r", "\n"});
}

TEST_CASE("bytes that are no text pass unchanged") {
  const std::string bytes("\xff\x00\xc3\n\x80", 5);
  CHECK(split({bytes}) == Lines{bytes.substr(0, 4), "\x80\n"});
}

TEST_CASE("a line longer than the limit is cut, and one of exactly the limit is not") {
  CHECK(split({"abcd\n"}, 4) == Lines{"abcd\n"});
  CHECK(split({"abcd", "\r\n"}, 4) == Lines{"abcd\r\n"});
  CHECK(split({"abcde\n"}, 4) == Lines{"abcd\n", "e\n"});
  CHECK(split({"abcdefghij"}, 4) == Lines{"abcd\n", "efgh\n", "ij\n"});
  CHECK(split({"abc", "defgh", "i\nj\n"}, 4) == Lines{"abcd\n", "efgh\n", "i\n", "j\n"});
}

TEST_CASE("where ends stay as they are, no byte is added to a long line or to a last one") {
  const auto ends = LineSplitter::Ends::as_they_are;
  CHECK(split({"abcdefghij", "kl\nlast"}, 4, ends) == Lines{"abcd", "efgh", "ijkl\n", "last"});
  CHECK(split({"abcde\r", "\nf\r"}, 4, ends) == Lines{"abcd", "e\r\n", "f\r"});
}

TEST_CASE(
    "an unfinished line may be shown, and comes again as a whole when it ends, with how much was shown") {
  std::vector<std::pair<std::string, std::size_t>> lines;
  const LineSplitter::Sink sink = [&](std::string_view line, std::size_t shown) {
    lines.emplace_back(line, shown);
  };
  LineSplitter splitter(LineSplitter::Ends::completed, 8);
  splitter.push("one\nna", sink);
  CHECK(splitter.holds_unshown());
  splitter.show(sink);
  CHECK_FALSE(splitter.holds_unshown());
  splitter.push("me", sink);
  CHECK(splitter.holds_unshown());
  splitter.show(sink);
  splitter.push("? x\n", sink);
  splitter.push("long", sink);
  splitter.show(sink);
  splitter.push("er than 8", sink);
  splitter.finish(sink);
  CHECK(lines == std::vector<std::pair<std::string, std::size_t>>{{"one\n", 0},
                                                                  {"na", 0},
                                                                  {"name", 2},
                                                                  {"name? x\n", 4},
                                                                  {"long", 0},
                                                                  {"longer t\n", 4},
                                                                  {"han 8\n", 0}});
}

TEST_CASE("what follows a carriage return alone takes the place of the line before it") {
  const LineSplitter::Sink nowhere = [](std::string_view, std::size_t) {};
  LineSplitter splitter(LineSplitter::Ends::completed);
  splitter.push("10%", nowhere);
  CHECK_FALSE(splitter.is_redrawing());
  splitter.push("\r20%", nowhere);
  CHECK(splitter.is_redrawing());
  splitter.push("\r\n", nowhere);
  CHECK_FALSE(splitter.is_redrawing());
}

}  // namespace dabke::test
