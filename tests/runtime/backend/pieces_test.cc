#include "runtime/backend/pieces.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <numeric>
#include <tuple>

namespace dabke::test {

TEST_CASE("any stretch of a row of pieces is visited once, in order, at the right places") {
  std::vector<std::byte> memory(400);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i / 2);
  constexpr std::size_t kElement = 2;
  InPieces pieces(kElement);
  std::vector<std::byte> row;
  std::size_t at = 0;
  for (const std::size_t elements : {1U, 0U, 7U, 0U, 0U, 64U, 2U, 30U, 0U}) {
    at += 3 * kElement;  // a gap between the pieces
    pieces.add(memory.data() + at, elements);
    row.insert(row.end(), memory.data() + at, memory.data() + at + elements * kElement);
    at += elements * kElement;
  }
  REQUIRE(pieces.elements() * kElement == row.size());
  for (std::size_t begin = 0; begin <= pieces.elements(); ++begin) {
    for (std::size_t count = 0; begin + count <= pieces.elements(); ++count) {
      std::vector<std::byte> seen;
      std::size_t next = 0;
      pieces.each(begin, count, [&](const std::byte* data, std::size_t elements, std::size_t place) {
        CHECK(place == next);
        CHECK(elements > 0);
        next += elements;
        seen.insert(seen.end(), data, data + elements * kElement);
      });
      const auto first = row.begin() + static_cast<std::ptrdiff_t>(begin * kElement);
      REQUIRE(seen == std::vector<std::byte>(first, first + static_cast<std::ptrdiff_t>(count * kElement)));
    }
  }
}

TEST_CASE("a row of more elements than 32 bits count is cut at the right places, memory or not") {
  constexpr std::size_t kLarge = (std::size_t{1} << 32) + 4096, kElement = 8;
  std::byte* const first = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
  std::byte* const second = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 50);
  OutPieces pieces(kElement);
  pieces.add(first, kLarge);
  pieces.add(second, kLarge);
  CHECK(pieces.elements() == 2 * kLarge);
  std::vector<std::tuple<std::byte*, std::size_t, std::size_t>> seen;
  pieces.each(kLarge - 5, kLarge, [&](std::byte* data, std::size_t elements, std::size_t at) {
    seen.emplace_back(data, elements, at);
  });
  CHECK(seen == std::vector<std::tuple<std::byte*, std::size_t, std::size_t>>{
                    {first + (kLarge - 5) * kElement, 5, 0}, {second, kLarge - 5, 5}});
}

}  // namespace dabke::test
