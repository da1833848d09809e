// The handwritten digits (data/README.md): read from the file, split, and cut into batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace digits {

inline constexpr std::size_t kPixels = 64;
inline constexpr std::size_t kClasses = 10;

/// Images, each kPixels numbers one behind the other, with the digit that each shows.
struct Images {
  std::vector<float> pixels;         // [size, kPixels]
  std::vector<std::uint8_t> labels;  // [size]

  std::size_t size() const { return labels.size(); }
  /// Those with the given indices, in that order.
  Images pick(std::span<const std::size_t> indices) const;
};

struct Split {
  Images training;
  Images held_out;
};

/// A half-open range of indices.
struct Slice {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Reads the CSV file; throws std::runtime_error that names the file and the line.
Images load(const std::string& path);

/// One fifth, always the same, is held out. Pixels are
/// standardised by the mean and deviation of the training images.
Split split_and_standardise(const Images& all);

/// Part `rank` of `size` parts of the range; they differ in length by one at most.
Slice slice_of_rank(Slice whole, int rank, int size);

/// 0 ... count - 1 in an order that the seed determines, the same on every rank.
std::vector<std::size_t> permutation(std::size_t count, std::uint64_t seed);

}  // namespace digits
