#include "runtime/base/one_or_many.h"

#include <string>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

using Names = OneOrMany<std::string>;

std::vector<std::string> seen(const Names& names) { return {names.begin(), names.end()}; }

}  // namespace

TEST_CASE("a list of one or many is a list at every length") {
  Names names;
  std::vector<std::string> expected;
  CHECK(names.empty());
  for (const char* name : {"a", "b", "c", "d"}) {
    names.push_back(name);
    expected.emplace_back(name);
    CHECK(seen(names) == expected);
    CHECK(names.size() == expected.size());
    CHECK(names.front() == "a");
    CHECK(names[names.size() - 1] == name);
    const Names copy = names;
    CHECK(copy == names);
    CHECK_FALSE(copy == Names{"a", "x"});
  }
  names[1] = "changed";
  CHECK(seen(names) == std::vector<std::string>{"a", "changed", "c", "d"});
}

TEST_CASE("a list of one or many keeps what it has when its length changes") {
  Names names{"a", "b", "c"};
  names.resize(2);
  CHECK(seen(names) == std::vector<std::string>{"a", "b"});
  names.resize(1);
  CHECK(names == Names{"a"});
  names.resize(3);
  CHECK(seen(names) == std::vector<std::string>{"a", "", ""});
  names.resize(0);
  CHECK(names == Names{});
  names.resize(1);
  CHECK(seen(names) == std::vector<std::string>{""});
  const std::vector<std::string> more{"x", "y"};
  names.append(more.begin(), more.end());
  CHECK(seen(names) == std::vector<std::string>{"", "x", "y"});
}

}  // namespace dabke::test
