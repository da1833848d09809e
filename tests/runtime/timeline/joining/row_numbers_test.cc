#include "runtime/timeline/joining/row_numbers.h"

#include <catch2/catch.hpp>

namespace dabke::test {

TEST_CASE("a name keeps its row in every file, and the names of the first file keep their numbers") {
  timeline::RowNumbers rows(100);
  CHECK(rows.number_of(0, 2, "b") == 2);
  CHECK(rows.number_of(0, 1, "a") == 1);
  CHECK(rows.number_of(1, 1, "b") == 2);
  CHECK(rows.number_of(1, 2, "a") == 1);
  CHECK(rows.number_of(1, 3, "c") == 3);
  CHECK(rows.number_of(2, 1, "d") == 4);  // the number of `a`, so it gets the next one
  CHECK(rows.number_of(0, 4, "e") == 5);
  CHECK(rows.number_of(2, 1, "d") == 4);
}

TEST_CASE("names beyond the highest row share it") {
  timeline::RowNumbers rows(3);
  CHECK(rows.number_of(0, 1, "a") == 1);
  CHECK(rows.number_of(1, 1, "b") == 2);
  CHECK(rows.number_of(2, 1, "c") == 3);
  CHECK(rows.number_of(3, 1, "d") == 3);
  CHECK(rows.number_of(3, 2, "b") == 2);
}

}  // namespace dabke::test
