#include "runtime/base/log.h"

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

struct Captured {
  explicit Captured(const Log::Options& options) : log(Log::to_string(text, options)) {}
  std::shared_ptr<std::string> text = std::make_shared<std::string>();
  Log log;
};

}  // namespace

TEST_CASE("a log line begins with rank and level") {
  const Captured seen({.hide_time = true, .rank = 3});
  seen.log.warning("tensor '{}' is late", "w1");
  CHECK(*seen.text == "[dabke rank 3 warning] tensor 'w1' is late\n");
}

TEST_CASE("before the rank is known a line leaves it out") {
  const Captured seen({.hide_time = true});
  seen.log.error("no store");
  CHECK(*seen.text == "[dabke error] no store\n");
}

TEST_CASE("a line has date and time unless they are hidden") {
  const Captured seen({.rank = 0});
  seen.log.error("x");
  REQUIRE(seen.text->size() > 24);
  CHECK(seen.text->substr(0, 3) == "[20");
  CHECK_THAT(*seen.text, Catch::EndsWith(" dabke rank 0 error] x\n"));
}

TEST_CASE("lines below the level are dropped") {
  const Captured seen({.level = LogLevel::info, .hide_time = true});
  seen.log.trace("1");
  seen.log.debug("2");
  seen.log.info("3");
  seen.log.warning("4");
  CHECK(*seen.text == "[dabke info] 3\n[dabke warning] 4\n");
  CHECK_FALSE(seen.log.enabled(LogLevel::debug));
  CHECK(seen.log.enabled(LogLevel::fatal));
}

TEST_CASE("braces in what a user named are text, not a format") {
  const Captured seen({.hide_time = true});
  seen.log.write(LogLevel::error, "tensor '{}{0}%v'");
  CHECK(*seen.text == "[dabke error] tensor '{}{0}%v'\n");
}

TEST_CASE("a default log drops everything") {
  const Log log;
  CHECK_FALSE(log.enabled(LogLevel::fatal));
  log.error("nobody sees {}", "this");
}

TEST_CASE("a copy of a log writes to the same place") {
  const Captured seen({.hide_time = true});
  const Log copy = seen.log;
  copy.error("from the copy");
  CHECK(*seen.text == "[dabke error] from the copy\n");
}

}  // namespace dabke::test
