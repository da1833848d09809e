#include "runtime/base/shape.h"

#include <numeric>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

Shape counting(std::size_t rank) {
  std::vector<std::int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 1);
  return Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

TEST_CASE("a scalar has no dimensions and one element") {
  const Shape scalar;
  CHECK(scalar.rank() == 0);
  CHECK(scalar.elements() == 1);
  CHECK(scalar.row_elements() == 1);
  CHECK(scalar.to_string() == "[]");
}

TEST_CASE("elements is the product of all dimensions, row_elements that of all but the first") {
  const Shape shape{2, 3, 4};
  CHECK(shape.elements() == 24);
  CHECK(shape.row_elements() == 12);
  CHECK(shape.to_string() == "[2, 3, 4]");
}

TEST_CASE("a shape with a dimension of 0 has no elements, but its rows have") {
  const Shape shape{0, 5};
  CHECK(shape.elements() == 0);
  CHECK(shape.row_elements() == 5);
}

TEST_CASE("shapes of few and of many dimensions copy, compare and change alike") {
  const std::size_t rank = GENERATE(std::size_t{1}, Shape::kInline, Shape::kInline + 1, std::size_t{20});
  const Shape original = counting(rank);
  Shape copy = original;
  CHECK(copy == original);
  copy.set(rank - 1, 100);
  CHECK(copy[rank - 1] == 100);
  CHECK_FALSE(copy == original);
  CHECK(original[rank - 1] == static_cast<std::int64_t>(rank));
  const Shape moved = std::move(copy);
  CHECK(moved[rank - 1] == 100);
  CHECK(moved.dims().size() == rank);
}

TEST_CASE("shapes of different rank differ though their elements are as many") {
  CHECK_FALSE(Shape{6} == Shape{2, 3});
  CHECK_FALSE(Shape{1} == Shape{});
  CHECK_FALSE(counting(6) == counting(7));
}

}  // namespace dabke::test
