#include "runtime/timeline/name_table.h"

#include <fmt/format.h>
#include <catch2/catch.hpp>

namespace dabke::test {

TEST_CASE("a timeline has a row for each name, and one for all that come when there are very many") {
  constexpr auto kMost = static_cast<std::uint32_t>(timeline::most_of(timeline::NameKind::tensor));
  constexpr std::string_view kFurther = "(all further tensors)";
  timeline::InternedNames names(kMost, kFurther);
  std::uint32_t last = 0;
  const auto number_of = [&](const std::string& name) { return names.number_of(name, last); };
  std::uint32_t in_order = 0;
  while (in_order < kMost && number_of(fmt::format("tensor.{}", in_order + 1)) == in_order + 1) ++in_order;
  REQUIRE(in_order == kMost);
  for (int i = 0; i < 1000; ++i) REQUIRE(number_of(fmt::format("further.{}", i)) == kMost + 1);
  CHECK(names.count() == kMost + 1);
  CHECK(names.name(kMost + 1) == kFurther);
  CHECK(names.name(7) == "tensor.7");
  CHECK(number_of("tensor.7") == 7);
  CHECK(number_of(fmt::format("tensor.{}", kMost)) == kMost);
  CHECK(number_of("further.0") == kMost + 1);
}

}  // namespace dabke::test
