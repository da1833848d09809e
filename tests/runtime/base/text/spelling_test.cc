#include "runtime/base/text/spelling.h"

#include <array>

#include <catch2/catch.hpp>

namespace dabke::test {

TEST_CASE("a change of one character and a swap of two neighbours are one edit each") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "ab") == 2);
  CHECK(edit_distance("report", "report") == 0);
  CHECK(edit_distance("reprot", "report") == 1);
  CHECK(edit_distance("repot", "report") == 1);
  CHECK(edit_distance("rreport", "report") == 1);
  CHECK(edit_distance("resort", "report") == 1);
  CHECK(edit_distance("erprot", "report") == 2);
}

TEST_CASE("the closest name is the first of the nearest, and none that is too far") {
  const std::array<std::string, 3> names{"merge", "report", "resort"};
  CHECK(closest_name("reprot", names, 2) == "report");
  CHECK(closest_name("rexort", names, 1) == "report");
  CHECK(closest_name("view", names, 2).empty());
}

}  // namespace dabke::test
