#include "runtime/base/dtype.h"

#include <set>

#include <catch2/catch.hpp>

namespace dabke::test {

TEST_CASE("there are thirteen dtypes, each with a name of its own") {
  std::set<std::string_view> names;
  for (const DType dtype : kDTypes) CHECK(names.insert(name_of(dtype)).second);
  CHECK(names.size() == 13);
  CHECK(name_of(static_cast<DType>(200)) == "unknown");
}

TEST_CASE("a dtype's width is in its name") {
  for (const DType dtype : kDTypes) {
    const std::string name(name_of(dtype));
    CAPTURE(name);
    const std::size_t bits =
        dtype == DType::b8 ? 8 : std::stoul(name.substr(name.find_first_of("0123456789")));
    CHECK(size_of(dtype) * 8 == bits);
  }
}

TEST_CASE("a dtype and its C++ type lead to one another") {
#define X(id, name, type, ...) CHECK(dtype_of<type> == DType::id);
  DABKE_DTYPES(X)
#undef X
}

TEST_CASE("visit_dtype calls the visitor with the dtype's C++ type") {
  for (const DType dtype : kDTypes) {
    const auto seen = visit_dtype(dtype, []<class T>(std::type_identity<T>) { return dtype_of<T>; });
    CHECK(seen == dtype);
  }
}

TEST_CASE("four dtypes are floating") {
  std::set<std::string_view> floating;
  for (const DType dtype : kDTypes) {
    if (is_floating(dtype)) floating.insert(name_of(dtype));
  }
  CHECK(floating == std::set<std::string_view>{"float16", "bfloat16", "float32", "float64"});
}

}  // namespace dabke::test
