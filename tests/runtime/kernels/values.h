// The numbers and the memory of the tests of the kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "runtime/kernels/kernels.h"

namespace dabke::test {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
template <class T>
inline constexpr bool kIsReal = kIsHalf<T> || std::is_floating_point_v<T>;

inline const std::size_t kLengths[] = {0,  1,  2,  3,  7,  8,  9,   15,  16,  17,  31,
                                       32, 33, 63, 64, 65, 66, 127, 128, 129, 1000};

/// Selects a target, and returns to the best one at the end.
struct OnTarget {
  explicit OnTarget(const std::string& name) { kernels::use_target(name); }
  ~OnTarget() { kernels::use_target(""); }
};

template <class T>
bool same(T a, T b) {
  if constexpr (kIsReal<T>) {
    const double x = static_cast<double>(static_cast<std::conditional_t<kIsHalf<T>, float, T>>(a));
    const double y = static_cast<double>(static_cast<std::conditional_t<kIsHalf<T>, float, T>>(b));
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
std::vector<T> special_values() {
  if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else if constexpr (kIsHalf<T>) {
    std::vector<T> values;
    for (const std::uint16_t bits :
         {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x3c01, 0x7bff, 0xfbff,
          0x7c00, 0xfc00, 0x7e00, 0x7c01, 0x3f80, 0x3f81, 0x7f7f, 0x7f80, 0xff80, 0x7fc0, 0x0080}) {
      T value;
      value.bits = bits;
      values.push_back(value);
    }
    return values;
  } else if constexpr (kIsReal<T>) {
    using L = std::numeric_limits<T>;
    return {T(0),           T(-0.0),         T(1),     T(-1),       L::min(),
            -L::min(),      L::denorm_min(), L::max(), L::lowest(), L::infinity(),
            -L::infinity(), L::quiet_NaN(),  T(1e8),   T(-1e8),     T(0.1)};
  } else {
    using L = std::numeric_limits<T>;
    return {T(0),
            T(1),
            static_cast<T>(-1),
            L::min(),
            L::max(),
            static_cast<T>(L::max() - 1),
            static_cast<T>(L::min() + 1),
            T(100)};
  }
}

/// Any bit patterns; every fourth value is a special one.
template <class T>
std::vector<T> mixed_values(std::size_t count, std::uint64_t seed) {
  const std::vector<T> special = special_values<T>();
  std::mt19937_64 random(seed);
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random();
    T value = special[bits % special.size()];
    if constexpr (!std::is_same_v<T, bool>) {
      if (bits >> 62) std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
    }
    values.push_back(value);
  }
  return values;
}

/// Memory at a chosen distance from an aligned address, between two guards that must stay unchanged.
class Misplaced {
 public:
  Misplaced(const void* from, std::size_t bytes, std::size_t offset)
      : memory_(bytes + 256, std::byte{0xA5}), bytes_(bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    start_ = (64 - address % 64) % 64 + 64 + offset;
    if (bytes != 0) std::memcpy(data(), from, bytes);
  }
  std::byte* data() { return memory_.data() + start_; }
  bool guards_hold() const {
    const auto is_untouched = [](std::byte one) { return one == std::byte{0xA5}; };
    const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(start_);
    return std::all_of(memory_.begin(), begin, is_untouched) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), memory_.end(), is_untouched);
  }

 private:
  std::vector<std::byte> memory_;
  std::size_t bytes_;
  std::size_t start_ = 0;
};

/// Compares the front of `got` with `want`, and ignores what follows.
template <class T>
std::string check_equal(Misplaced& got, const std::vector<T>& want) {
  if (!got.guards_hold()) return "wrote outside";
  if constexpr (!std::is_same_v<T, bool>) {  // mostly all bits are the same, even those of NaNs
    if (want.empty() || std::memcmp(got.data(), want.data(), want.size() * sizeof(T)) == 0) return "";
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    T value;
    std::memcpy(static_cast<void*>(&value), got.data() + i * sizeof(T), sizeof(T));
    if (!same(value, T(want[i])))
      return "element " + std::to_string(i) + " of " + std::to_string(want.size()) + " differs";
  }
  return "";
}

/// The values as bytes: vector<bool> has no data().
template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = values[i];
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

}  // namespace dabke::test
