#include "launcher/job/line_splitter.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke {
namespace {

using Lines = std::vector<std::string>;

/// The lines of a stream that arrives in these pieces and then ends.
Lines split(const std::vector<std::string>& pieces, std::size_t longest = 1 << 20) {
  Lines lines;
  const auto sink = [&](std::string_view line) { lines.emplace_back(line); };
  LineSplitter splitter(longest);
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
  const auto sink = [&](std::string_view line) { lines.emplace_back(line); };
  LineSplitter splitter;
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

}  // namespace dabke
