#include "launcher/reach/shell_words.h"

#include <catch2/catch.hpp>

namespace dabke::test {
using namespace launcher;
namespace {

using Words = std::vector<std::string>;

Words words_of(std::string_view line) {
  const auto words = split_shell_words(line);
  return words.is_ok() ? *words : Words{"error: " + words.status().message()};
}

}  // namespace

TEST_CASE("a line is split at blanks, and quotes and backslashes keep them") {
  CHECK(words_of("").empty());
  CHECK(words_of(" -o  A=1\t-v ") == Words{"-o", "A=1", "-v"});
  CHECK(words_of("-o 'ProxyCommand=nc -x p %h'") == Words{"-o", "ProxyCommand=nc -x p %h"});
  CHECK(words_of("-o \"A=b c\" d\\ e ''") == Words{"-o", "A=b c", "d e", ""});
  CHECK(words_of("A='b c'd") == Words{"A=b cd"});
  CHECK(words_of(R"("a\"b\\c\d" '\n' \'x)") == Words{R"(a"b\c\d)", "\\n", "'x"});
  CHECK(words_of("$HOME;x|y") == Words{"$HOME;x|y"});  // words are not expanded as in a shell
}

TEST_CASE("a line whose quotes do not close is an error that says which") {
  CHECK(words_of("-o 'A=b c") == Words{"error: a ' is not closed"});
  CHECK(words_of("-o \"A=b c'") == Words{"error: a \" is not closed"});
  CHECK(words_of("a\\") == Words{"error: nothing follows the last backslash"});
}

}  // namespace dabke::test
