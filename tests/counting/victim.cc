// A program whose tests fail on purpose, in every way that the counter must see. Each test is run only by its
// tag.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <catch2/catch.hpp>

#include "tests/skip.h"

TEST_CASE("this one passes", "[pass][crash][killed][hang][leaves][badend]") { CHECK(1 + 1 == 2); }

TEST_CASE("sections do not make more of it", "[pass]") {
  SECTION("first") { CHECK(true); }
  SECTION("second") { CHECK(true); }
}

TEST_CASE("it needs what is not here", "[.][skips]") {
  DABKE_SKIP("there is no "
             << "sea");
}

TEST_CASE("one of its sections fails, and another needs what is not here", "[.][skipsandfails]") {
  SECTION("first") { CHECK(1 == 2); }
  SECTION("second") { DABKE_SKIP("there is no sea"); }
}

TEST_CASE("a claim that does not hold", "[.][fail]") {
  const int there = 1;
  CHECK(there == 2);
}

TEST_CASE("seventy-seven claims that do not hold",
          "[.][skipcode]") {  // Meson takes exit code 77 for a skipped test
  for (int i = 0; i < 77; ++i) CHECK(i < 0);
}

TEST_CASE("an exception nobody catches", "[.][throws]") { throw 7; }

TEST_CASE("it crashes here", "[.][crash]") { std::raise(SIGSEGV); }

TEST_CASE("it is killed here", "[.][killed]") { ::kill(::getpid(), SIGKILL); }

TEST_CASE("it hangs here", "[.][hang]") {
  std::puts("hangs now");
  std::fflush(stdout);
  ::pause();
}

TEST_CASE("it leaves with code 0 in the middle", "[.][leaves]") { ::_exit(0); }

TEST_CASE("its end goes wrong after all tests passed", "[.][badend]") {
  CHECK(std::atexit([] { ::_exit(3); }) == 0);
}
