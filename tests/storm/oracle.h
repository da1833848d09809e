// The inputs of each rank and the expected outputs, computed from the seed alone.
//
// The numbers are chosen so that there is exactly one right result:
//   * small whole numbers, and scales that are powers of two: every sum is exact in every dtype
//   * any bits, for integers that wrap
//   * numbers near the limits, if the result is within them
// Only one case may differ by a rounding: the average of floating-point numbers over 3, 5, 6 or 7 ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program.h"

namespace storm {

class Oracle {
 public:
  /// `set`: the ranks of the call's process set.
  Oracle(std::uint64_t seed, const Call& call, Ranks set);

  std::vector<std::int64_t> input_shape(std::size_t tensor, int rank) const;
  std::vector<std::int64_t> output_shape(std::size_t tensor, int rank) const;
  /// True if a rank whose output allocator refuses must have an output with elements.
  bool lacks_output() const;
  /// alltoall: the rows that a rank sends to each rank of the set.
  std::vector<std::int64_t> splits(int rank) const;
  std::vector<std::int64_t> received_splits(int rank) const;
  void fill(std::size_t tensor, int rank, std::byte* input) const;
  /// Returns "" if `got` is the rank's right output; otherwise text about the first wrong element.
  std::string check(std::size_t tensor, int rank, const std::byte* got) const;
  /// Returns "" if the input is still as fill() made it.
  std::string check_input(std::size_t tensor, int rank, const std::byte* got) const;
  /// How many of a thousand elements of a message its receiver has in `got`, which fill() had filled.
  int arrived_permille(std::size_t tensor, int rank, const std::byte* got) const;

 private:
  Bits input(std::size_t tensor, int rank, std::uint64_t element) const;
  Bits reduced(std::size_t tensor, std::uint64_t element) const;
  Bits reduced_integers(Dtype dtype, std::size_t tensor, std::uint64_t element) const;
  double reduced_reals(Dtype dtype, std::size_t tensor, std::uint64_t element) const;
  std::int64_t row_elements(std::size_t tensor) const;
  std::int64_t rows(std::size_t tensor, int rank) const;
  std::int64_t split(int from, std::size_t to) const;
  std::string compare(std::size_t tensor, const std::byte* got, std::uint64_t at, Bits want) const;
  bool is_right(Dtype dtype, Bits got, Bits want) const;
  std::string check_moved(std::size_t tensor, int rank, const std::byte* got) const;

  std::uint64_t seed_;
  const Call& call_;
  std::vector<int> set_;     // ascending, as the blocks are
  std::vector<int> takers_;  // ranks of the set that have not joined
};

}  // namespace storm
