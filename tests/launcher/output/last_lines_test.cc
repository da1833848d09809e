#include "launcher/output/last_lines.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace dabke;
using namespace dabke::launcher;

TEST_CASE("the last ten lines are kept, oldest first and without their ends") {
  LastLines lines;
  CHECK(lines.all().empty());
  lines.push("first\n", 3);
  lines.push("second\r\n", 4);
  lines.push("50 %\r", 9);
  CHECK(lines.begin_at() == 3);
  CHECK(lines.all() == std::vector<std::string>{"first", "second", "50 %"});
  for (int i = 0; i < 25; ++i) lines.push(std::to_string(i) + "\n", 20 + static_cast<std::size_t>(i));
  const std::vector<std::string> kept = lines.all();
  REQUIRE(kept.size() == LastLines::kCount);
  CHECK(kept.front() == "15");
  CHECK(kept.back() == "24");
  CHECK(lines.begin_at() == 35);
}

TEST_CASE("a long last line is cut, and says so") {
  LastLines lines;
  lines.push(std::string(10'000, 'x') + "\n", 0);
  CHECK(lines.all().front() == std::string(LastLines::kLongest, 'x') + " ...");
}
