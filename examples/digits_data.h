// The handwritten digits (data/README.md): functions that read, split and standardise them, and cut batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace digits {

inline constexpr std::size_t kPixels = 64;
inline constexpr std::size_t kClasses = 10;

/// Images, each with kPixels contiguous numbers, and the digit that each image shows.
struct Images {
  std::vector<float> pixels;         // [size, kPixels]
  std::vector<std::uint8_t> labels;  // [size]

  std::size_t size() const { return labels.size(); }
  /// The images with the given indices, in that order.
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

/// Holds out one fifth of the images, always the same. Standardises each pixel by its mean and standard
/// deviation over the training images.
Split split_and_standardise(const Images& all);

/// Part `rank` of `size` parts of the range. The lengths of the parts differ by at most one.
Slice slice_of_rank(Slice whole, int rank, int size);

/// The numbers 0 ... count - 1 in an order that the seed determines; the same on every rank.
std::vector<std::size_t> permutation(std::size_t count, std::uint64_t seed);

}  // namespace digits
