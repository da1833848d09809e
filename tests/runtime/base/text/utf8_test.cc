#include <catch2/catch.hpp>

#include "runtime/base/text/utf8.h"

namespace dabke::test {

using namespace std::string_literals;

TEST_CASE("every character of one to four bytes is UTF-8, at the ends of its range") {
  for (const std::string& text :
       {""s, "\0"s, "a"s, "\x7f"s, "\xc2\x80"s, "\xdf\xbf"s, "\xe0\xa0\x80"s, "\xed\x9f\xbf"s,
        "\xee\x80\x80"s, "\xef\xbf\xbf"s, "\xf0\x90\x80\x80"s, "\xf4\x8f\xbf\xbf"s}) {
    const std::string within = "layer" + text + "." + text;
    CHECK(is_utf8(within));
    CHECK(escaped_utf8(within) == within);
  }
}

TEST_CASE("what only looks like UTF-8 is found, and its bytes are escaped") {
  const std::pair<std::string, std::string> wrong[] = {
      {"\x80", "\\x80"},                             // the middle of a character
      {"\xff", "\\xff"},                             // not in any character
      {"\xc0\xaf", "\\xc0\\xaf"},                    // '/' in two bytes
      {"\xc1\xbf", "\\xc1\\xbf"},                    // DEL in two bytes
      {"\xe0\x9f\xbf", "\\xe0\\x9f\\xbf"},           // a code of two bytes in three
      {"\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf"},  // a code of three bytes in four
      {"\xc0\x80", "\\xc0\\x80"},                    // NUL in two bytes
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // the first surrogate
      {"\xed\xbf\xbf", "\\xed\\xbf\\xbf"},           // the last surrogate
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // U+110000
      {"\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"},  // beyond that
      {"\xe2\x82", "\\xe2\\x82"},                    // ends too early
      {"\xe2\x82z", "\\xe2\\x82z"},                  // another character in the middle
      {"\xc3\xa4\xc3", "\xc3\xa4\\xc3"},             // after valid text
  };
  for (const auto& [text, escaped] : wrong) {
    CAPTURE(escaped);
    CHECK_FALSE(is_utf8(text));
    CHECK_FALSE(is_utf8("grad" + text));
    CHECK(escaped_utf8("grad" + text + "'") == "grad" + escaped + "'");
    CHECK(is_utf8(escaped_utf8(text)));
  }
}

}  // namespace dabke::test
