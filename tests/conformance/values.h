// Elements of tests: the inputs of each rank, and the arithmetic that gives the expected outputs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"
#include "runtime/base/tensor.h"

namespace dabke::test {

/// A tensor that owns its memory. A tensor without elements has none.
struct Buffer {
  Buffer() = default;
  Buffer(DType element, Shape dims)
      : dtype(element),
        shape(std::move(dims)),
        bytes(static_cast<std::size_t>(shape.elements()) * size_of(element)) {}
  TensorView view() { return {bytes.empty() ? nullptr : bytes.data(), dtype, {}, shape}; }

  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;
};

template <class T>
T element_at(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
inline constexpr bool is_float =
    std::is_same_v<T, f16> || std::is_same_v<T, bf16> || std::is_floating_point_v<T>;

template <class T>
double number(T value) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
T from_number(double value) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// The period of input_value() in elements: the product of its divisors, times 8 for its shift.
inline constexpr std::int64_t kPeriod = std::int64_t{4} * 5 * 7 * 8;

/// The input of `rank` at `index`: small numbers (halves for floating dtypes). Sums and products of a few
/// ranks are exact in every dtype, in any order.
template <class T>
T input_value(int rank, std::int64_t index, int salt) {
  const std::int64_t mixed = rank * 5 + index * 3 + (index >> 3) + salt * 7;
  if constexpr (std::is_same_v<T, bool>) {
    return mixed % 4 != 0;
  } else if constexpr (is_float<T>) {
    return from_number<T>(static_cast<double>(mixed % 7 - 3) / 2);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(mixed % 5 - 2);
  } else {
    return static_cast<T>(mixed % 5);
  }
}

/// value * factor as documented: integers truncate toward zero, as a cast does. A bool, and a product
/// with 1, stay unchanged. With std::trunc(), or with long double for a factor of 1, this would take
/// longer than all other arithmetic here.
template <class T>
T scaled(T value, double factor) {
  if (std::is_same_v<T, bool> || factor == 1) {
    return value;
  } else if constexpr (is_float<T>) {
    return from_number<T>(number(value) * factor);
  } else {
    return static_cast<T>(static_cast<long double>(value) * static_cast<long double>(factor));
  }
}

template <class T>
T reduced(ReduceOp op, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    if (op == ReduceOp::bitwise_xor) return a != b;
    return op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::bitwise_or ? a || b : a && b;
  } else if (op == ReduceOp::min || op == ReduceOp::max) {
    return (number(a) < number(b)) == (op == ReduceOp::min) ? a : b;
  } else if constexpr (is_float<T>) {
    return from_number<T>(op == ReduceOp::product ? number(a) * number(b) : number(a) + number(b));
  } else {
    const auto x = static_cast<std::uint64_t>(a);  // wraps instead of overflowing
    const auto y = static_cast<std::uint64_t>(b);
    switch (op) {
      case ReduceOp::product: return static_cast<T>(x * y);
      case ReduceOp::bitwise_and: return static_cast<T>(x & y);
      case ReduceOp::bitwise_or: return static_cast<T>(x | y);
      case ReduceOp::bitwise_xor: return static_cast<T>(x ^ y);
      default: return static_cast<T>(x + y);
    }
  }
}

/// The reduction of the inputs of `ranks` ranks at `index`.
template <class T>
T expected_value(ReduceOp op, int ranks, std::int64_t index, int salt, double prescale, double postscale) {
  T result = scaled(input_value<T>(0, index, salt), prescale);
  for (int rank = 1; rank < ranks; ++rank) {
    result = reduced(op, result, scaled(input_value<T>(rank, index, salt), prescale));
  }
  if (op != ReduceOp::average) return scaled(result, postscale);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<long double>(result) * static_cast<long double>(postscale) / ranks);
  } else {
    return from_number<T>(number(result) * postscale / ranks);
  }
}

/// The distance between neighbouring numbers near 1.
template <class T>
constexpr double epsilon_of() {
  if (std::is_same_v<T, f16>) return 0x1p-10;
  if (std::is_same_v<T, bf16>) return 0x1p-7;
  return std::is_same_v<T, float> ? 0x1p-23 : 0x1p-52;
}

/// True if the numbers are equal or, if `inexact`, nearly equal: a third
/// of a value may be rounded either way.
template <class T>
bool matches(T got, T want, bool inexact) {
  if constexpr (is_float<T>) {
    if (inexact) return std::abs(number(got) - number(want)) <= 2 * epsilon_of<T>() * std::abs(number(want));
  }
  return number(got) == number(want);
}

/// `count` elements that repeat after kPeriod. Each is computed once, because a sanitizer makes that slow.
template <class T>
class Pattern {
 public:
  /// `value_at(i)` is element i.
  template <class ValueAt>
  Pattern(std::int64_t count, ValueAt value_at)
      : count_(count), once_(static_cast<std::size_t>(std::min(count, kPeriod)) * sizeof(T)) {
    for (std::int64_t i = 0; i < std::min(count, kPeriod); ++i) {
      const T value = value_at(i);
      std::memcpy(once_.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
    }
  }

  void write_to(std::byte* data) const {
    for_each_stretch(
        [&](std::size_t offset, std::size_t bytes) { std::memcpy(data + offset, once_.data(), bytes); });
  }

  /// The first element of `data` that does not match, as text; "" if all do.
  std::string first_difference(const std::byte* data, bool inexact) const {
    std::string wrong;
    for_each_stretch([&](std::size_t offset, std::size_t bytes) {
      if (!wrong.empty() || std::memcmp(data + offset, once_.data(), bytes) == 0) return;
      for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
        const T got = element_at<T>(data + offset, i), want = element_at<T>(once_.data(), i);
        if (matches(got, want, inexact)) continue;
        wrong =
            fmt::format("element {} is {} instead of {}", offset / sizeof(T) + i, number(got), number(want));
        return;
      }
    });
    return wrong;
  }

 private:
  template <class Do>
  void for_each_stretch(Do act) const {
    const std::size_t all = static_cast<std::size_t>(count_) * sizeof(T);
    for (std::size_t offset = 0; offset < all; offset += once_.size())
      act(offset, std::min(once_.size(), all - offset));
  }

  std::int64_t count_;
  std::vector<std::byte> once_;
};

}  // namespace dabke::test
