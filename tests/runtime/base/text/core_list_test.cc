#include "runtime/base/text/core_list.h"

#include <catch2/catch.hpp>

namespace dabke::test {

TEST_CASE("a core list is core numbers with commas between them") {
  CHECK(*parse_core_list("", "X") == std::vector<unsigned>{});
  CHECK(*parse_core_list("3", "X") == std::vector<unsigned>{3});
  CHECK(*parse_core_list("0,2,1023", "X") == std::vector<unsigned>{0, 2, 1023});
}

TEST_CASE("a word that is no core number is refused with the list, the word and an example") {
  for (const char* text : {"zz", "1,,2", "1;2", "-1", "1024", "99999999999", "1 ,2"}) {
    const Status status = parse_core_list(text, "DABKE_THREAD_AFFINITY").status();
    CHECK(status.code() == Code::invalid_argument);
    CHECK_THAT(status.message(), Catch::StartsWith("DABKE_THREAD_AFFINITY='" + std::string(text) + "': '") &&
                                     Catch::Contains("is not a core number") &&
                                     Catch::Contains("such as 0,2"));
  }
}

}  // namespace dabke::test
