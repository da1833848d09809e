#include "tests/conformance/averages.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "tests/conformance/matrix.h"
#include "tests/conformance/values.h"
#include "tests/patience.h"

namespace dabke::test {
namespace {

__extension__ using Whole = __int128;

/// Repeats after kPeriod.
std::uint64_t any_bits(int rank, std::size_t index) {
  std::uint64_t bits =
      index % kPeriod * 64 + static_cast<std::uint64_t>(rank) + 0x9e3779b97f4a7c15u;  // splitmix64
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
  return bits ^ bits >> 31;
}

/// The value of `rank` at `index`: the largest number, the least, or any bits. 64-bit values are an
/// eighth of that, because their sums wrap.
template <class T>
T wide_value(int rank, std::size_t index) {
  using Limits = std::numeric_limits<T>;
  constexpr int kSpare = sizeof(T) == 8 ? 3 : 0;
  constexpr T kMost = static_cast<T>(Limits::max() >> kSpare);
  constexpr T kLeast = static_cast<T>(Limits::min() / (1 << kSpare));
  switch (index % 5) {
    case 0: return kMost;
    case 1: return kLeast;
    case 2: return static_cast<T>(kMost - rank);
    case 3: return rank % 2 == 0 ? kLeast : kMost;
    default: return static_cast<T>(static_cast<T>(any_bits(rank, index)) >> kSpare);
  }
}

/// The largest value, the least, a mix of both, and ones beside 2048 (bfloat16: 256).
/// float16 cannot add those one by one.
template <class T>
requires is_float<T> T wide_value(int rank, std::size_t index) {
  constexpr double kMost = std::is_same_v<T, f16> ? 65504 : 0x1p100;
  constexpr double kOneApart = std::is_same_v<T, f16> ? 2048 : 256;
  switch (index % 5) {
    case 0: return from_number<T>(kMost);
    case 1: return from_number<T>(-kMost);
    case 2: return from_number<T>(rank % 2 == 0 ? kMost : kMost / 2);
    case 3: return from_number<T>(rank % 2 == 0 ? -kMost : kMost);
    default: return from_number<T>(rank == 0 ? kOneApart : 1);
  }
}

/// The average, rounded once.
template <class T>
requires is_float<T> T average_at(int ranks, std::size_t index) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += number(wide_value<T>(rank, index));
  return from_number<T>(sum / ranks);
}

/// The exact average, rounded toward zero.
template <class T>
T average_at(int ranks, std::size_t index) {
  Whole sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += wide_value<T>(rank, index);
  return static_cast<T>(sum / ranks);
}

/// Compares floats up to the last digit: n may not be a power of 2, and the
/// factor is rounded before the product.
template <class T, class ValueAt>
std::string difference(const std::string& what, const std::vector<T>& data, ValueAt want) {
  const Pattern<T> pattern(static_cast<std::int64_t>(data.size()),
                           [&](std::int64_t i) { return want(static_cast<std::size_t>(i)); });
  const std::string wrong = pattern.first_difference(reinterpret_cast<const std::byte*>(data.data()), true);
  return wrong.empty() ? "" : what + ": " + wrong;
}

/// A sum that is rounded at each step may be off by as much at each step. float16 sums that leave
/// the range on the way are not checked.
template <class T>
bool is_near(T got, T want, std::size_t index, int ranks) {
  if (std::is_same_v<T, f16> && index % 5 != 4) return true;
  return std::abs(number(got) - number(want)) <= ranks * epsilon_of<T>() * std::abs(number(want));
}

/// Scales on both sides: half of each value, twice their average.
template <class T>
std::string wrong_of_other(Rank& self, const std::string& what, std::vector<T>& data, bool) {
  must(self.allreduce(data,
                      {.name = "scaled " + what, .op = ReduceOp::average, .prescale = 0.5, .postscale = 2}));
  return difference("scaled average of " + what, data, [&](std::size_t i) {
    Whole sum = 0;
    for (int rank = 0; rank < self.size(); ++rank) sum += wide_value<T>(rank, i) / 2;
    return static_cast<T>(2 * sum / self.size());
  });
}

/// Checks the sums that are numbers of their dtype.
template <class T>
requires is_float<T> std::string wrong_of_other(Rank& self, const std::string& what, std::vector<T>& data,
                                                bool rounds_once) {
  must(self.allreduce(data, {.name = "sum " + what}));
  for (std::size_t i = 4; i < data.size(); i += 5) {
    double sum = 0;
    for (int rank = 0; rank < self.size(); ++rank) sum += number(wide_value<T>(rank, i));
    const T want = from_number<T>(sum);
    if (rounds_once ? number(data[i]) != number(want) : !is_near(data[i], want, i, self.size()))
      return fmt::format("sum of {}, element {}: {} instead of {}", what, i, number(data[i]), number(want));
  }
  return {};
}

template <class T>
std::string wrong_of(Rank& self, std::size_t rows, bool rounds_once) {
  std::vector<T> data(rows);
  Pattern<T>(static_cast<std::int64_t>(rows), [&](std::int64_t i) {
    return wide_value<T>(self.rank(), static_cast<std::size_t>(i));
  }).write_to(reinterpret_cast<std::byte*>(data.data()));
  std::vector<T> scattered = data, other = data;
  const std::string what = fmt::format("{} of {}", rows, name_of(dtype_of<T>));
  const auto average = [&](std::size_t i) { return average_at<T>(self.size(), i); };
  must(self.allreduce(data, {.name = "average " + what, .op = ReduceOp::average}));
  const auto differs = [&](const std::string& of, const std::vector<T>& got, std::size_t first) {
    if constexpr (is_float<T>) {
      for (std::size_t i = 0; !rounds_once && i < got.size(); ++i) {
        if (const T want = average(first + i); !is_near(got[i], want, first + i, self.size()))
          return fmt::format("{}, element {}: {} instead of {}", of, i, number(got[i]), number(want));
      }
      if (!rounds_once) return std::string();
    }
    return difference(of, got, [&](std::size_t i) { return average(first + i); });
  };
  if (std::string wrong = differs("average of " + what, data, 0); !wrong.empty()) return wrong;
  if (std::string wrong = wrong_of_other(self, what, other, rounds_once); !wrong.empty()) return wrong;
  const auto block =
      must(self.reducescatter(scattered, {.name = "block of " + what, .op = ReduceOp::average}));
  const auto size = static_cast<std::size_t>(self.size()), rank = static_cast<std::size_t>(self.rank());
  const std::size_t first = rows / size * rank + std::min(rank, rows % size);
  if (block.size() != rows / size + (rank < rows % size ? 1 : 0))
    return "block of " + what + " has another length";
  return differs("block of " + what, block, first);
}

}  // namespace

std::vector<std::string> wrong_averages(Rank& self, bool rounds_once) {
  std::vector<std::string> wrong;
  // Sizes for the algorithm in which every rank sends to all others, and for the one in slices or in a ring.
  constexpr std::size_t kLarge = std::size_t{300} << 10;
  for (const std::size_t bytes : {std::size_t{40}, std::size_t{4} << 10, kLarge}) {
    for (const DType dtype : kDTypes) {
      // The large size runs with one dtype of each width if pairs are enough,
      // and with two dtypes under a sanitizer.
      const bool is_one_of_two = dtype == DType::f16 || dtype == DType::i32;
      const bool is_one_of_a_width = is_one_of_two || dtype == DType::u8 || dtype == DType::i64;
      if (bytes == kLarge && cases_are_pairwise() && !is_one_of_a_width) continue;
      if (bytes == kLarge && test::kSanitized && !is_one_of_two) continue;
      visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
        constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;
        if constexpr (kIsInteger || std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
          const std::string text = wrong_of<T>(self, bytes / sizeof(T) + 1, rounds_once);
          if (!text.empty()) wrong.push_back(text);
        }
      });
    }
  }
  return wrong;
}

}  // namespace dabke::test
