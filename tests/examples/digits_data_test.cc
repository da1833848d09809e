#include "examples/digits_data.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/facts.h"

namespace digits {
namespace {

TEST_CASE("the file holds 1,797 images of every digit, of which a fifth is held out") {
  const Images all = load(SOURCE_ROOT "/examples/data/digits.csv");
  REQUIRE(all.size() == 1797);
  CHECK(all.pixels.size() == 1797 * kPixels);
  for (std::uint8_t digit = 0; digit < kClasses; ++digit) {
    CHECK(std::ranges::count(all.labels, digit) > 170);
  }
  const Split split = split_and_standardise(all);
  CHECK(split.training.size() == 1438);
  CHECK(split.held_out.size() == 359);
}

TEST_CASE("pixels of the training images have mean 0 and deviation 1, or less where they hardly vary") {
  const Images images = split_and_standardise(load(SOURCE_ROOT "/examples/data/digits.csv")).training;
  for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
    double sum = 0, squares = 0;
    for (std::size_t i = pixel; i < images.pixels.size(); i += kPixels) {
      sum += images.pixels[i];
      squares += images.pixels[i] * images.pixels[i];
    }
    const auto count = static_cast<double>(images.size());
    CHECK(sum / count == Approx(0).margin(1e-4));
    CHECK(squares / count < 1.001);
  }
}

TEST_CASE("the ranks' slices cover the whole without overlap, and differ by one at most") {
  const Slice whole = GENERATE(Slice{0, 0}, Slice{0, 1}, Slice{3, 10}, Slice{0, 64}, Slice{100, 1537});
  const int size = GENERATE(1, 2, 3, 4, 7);
  std::size_t at = whole.begin, least = whole.end, most = 0;
  for (int rank = 0; rank < size; ++rank) {
    const Slice slice = slice_of_rank(whole, rank, size);
    CHECK(slice.begin == at);
    at = slice.end;
    least = std::min(least, slice.end - slice.begin);
    most = std::max(most, slice.end - slice.begin);
  }
  CHECK(at == whole.end);
  CHECK(most <= least + 1);
}

TEST_CASE("a permutation has every index once, and depends on the seed alone") {
  const auto order = permutation(1000, 7);
  CHECK(order == permutation(1000, 7));
  CHECK(order != permutation(1000, 8));
  auto sorted = order;
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < sorted.size(); ++i) REQUIRE(sorted[i] == i);
}

/// The error of load() for a file with this text.
std::string refusal_of(const std::string& text) {
  std::string folder = "/tmp/dabke_digits_XXXXXX";
  if (!::mkdtemp(folder.data())) return "mkdtemp failed";
  const std::string path = folder + "/digits.csv";
  std::ofstream(path) << text;
  std::string said;
  try {
    load(path);
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  std::filesystem::remove_all(folder);
  return said;
}

std::string line_of(const std::string& pixel, const std::string& last) {
  std::string line;
  for (std::size_t i = 0; i < kPixels; ++i) line += pixel + ",";
  return line + last + "\n";
}

TEST_CASE("a bad file is refused by its name and line") {
  const std::string good = line_of("16", "9");
  std::string ten;
  for (int i = 0; i < 10; ++i) ten += good;
  CHECK(refusal_of(ten) == "");
  CHECK_THAT(refusal_of(good), Catch::Contains("digits.csv") && Catch::Contains("fewer than 10"));
  for (const std::string& bad :
       {line_of("17", "9"), line_of("-1", "9"), line_of("1", "10"), line_of("1.5", "1"), line_of("x", "1"),
        line_of("1", ""), line_of("1", "1,1"), std::string("\n")}) {
    CHECK_THAT(refusal_of(ten + bad), Catch::Contains("digits.csv', line 11"));
  }
  CHECK_THROWS_WITH(load("/no/such/file"), Catch::Contains("/no/such/file"));
  CHECK_THROWS_WITH(load("/tmp"), Catch::Contains("'/tmp'"));
}

}  // namespace
}  // namespace digits
