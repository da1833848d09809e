#include "launcher/job/last_lines.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace dabke;

TEST_CASE("the last ten lines are kept, oldest first and without their ends") {
  LastLines lines;
  CHECK(lines.all().empty());
  lines.push("first\n");
  lines.push("second\r\n");
  lines.push("50 %\r");
  CHECK(lines.all() == std::vector<std::string>{"first", "second", "50 %"});
  for (int i = 0; i < 25; ++i) lines.push(std::to_string(i) + "\n");
  const std::vector<std::string> kept = lines.all();
  REQUIRE(kept.size() == LastLines::kCount);
  CHECK(kept.front() == "15");
  CHECK(kept.back() == "24");
}

TEST_CASE("a long last line is cut, and says so") {
  LastLines lines;
  lines.push(std::string(10'000, 'x') + "\n");
  CHECK(lines.all().front() == std::string(LastLines::kLongest, 'x') + " ...");
}
