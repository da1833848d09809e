#include "runtime/base/half.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

namespace dabke::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The value of a binary16 by the definition of IEEE 754, in double arithmetic.
double value_of(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                           : exponent == 31 ? (mantissa == 0 ? INFINITY : NAN)
                                            : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

}  // namespace

TEST_CASE("every float16 has the value that IEEE 754 gives its bits, and comes back from float unchanged") {
  int wrong = 0;
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = f16::to_float(half);
    const double expected = value_of(half);
    if (std::isnan(expected)) {
      wrong += !std::isnan(value) || !std::isnan(f16::to_float(f16::from_float(value)));
    } else {
      wrong += value != expected || std::signbit(value) != std::signbit(expected) ||
               f16::from_float(value) != half;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("float to float16 takes the nearest, and of two equally near the even one") {
  int wrong = 0;
  for (unsigned bits = 0; bits < 0x7bff; ++bits) {  // up to the last finite pair
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const auto middle =
        static_cast<float>((value_of(low) + value_of(high)) / 2);  // exact: it needs one bit more than a half
    const std::uint16_t even = bits % 2 == 0 ? low : high;
    wrong += f16::from_float(middle) != even;
    wrong += f16::from_float(std::nextafter(middle, 0.0f)) != low;
    wrong += f16::from_float(std::nextafter(middle, kInfinity)) != high;
    wrong += f16::from_float(-middle) != (even | 0x8000);
  }
  CHECK(wrong == 0);
}

TEST_CASE("float16 overflows to infinity from 65520 on, and not before") {
  CHECK(f16(65519.996f).bits == 0x7bff);
  CHECK(f16(65520.0f).bits == 0x7c00);
  CHECK(f16(1e30f).bits == 0x7c00);
  CHECK(f16(-kInfinity).bits == 0xfc00);
}

TEST_CASE("float16 underflows to zero and keeps its sign") {
  CHECK(f16(0x1p-24f).bits == 1);
  CHECK(f16(0x1p-25f).bits == 0);
  CHECK(f16(-0x1p-26f).bits == 0x8000);
  CHECK(f16(std::numeric_limits<float>::denorm_min()).bits == 0);
}

TEST_CASE("a NaN stays a NaN in both 16-bit types, whatever its payload") {
  for (const std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffc00000u}) {
    const float nan = std::bit_cast<float>(bits);
    CHECK(std::isnan(static_cast<float>(f16(nan))));
    CHECK(std::isnan(static_cast<float>(bf16(nan))));
  }
}

TEST_CASE("every bfloat16 comes back from float unchanged") {
  int wrong = 0;
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    bf16 value;
    value.bits = static_cast<std::uint16_t>(bits);
    const auto wide = static_cast<float>(value);
    wrong += std::isnan(wide) ? !std::isnan(static_cast<float>(bf16(wide))) : bf16(wide) != value;
  }
  CHECK(wrong == 0);
}

TEST_CASE("float to bfloat16 takes the nearest, and of two equally near the even one") {
  CHECK(bf16(1.0f).bits == 0x3f80);
  CHECK(bf16(1.0f + 0x1p-8f).bits == 0x3f80);             // a tie, down to even
  CHECK(bf16(1.0f + 3 * 0x1p-8f).bits == 0x3f82);         // a tie, up to even
  CHECK(bf16(1.0f + 0x1p-8f + 0x1p-20f).bits == 0x3f81);  // just above the tie
  CHECK(bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(bf16(-kInfinity).bits == 0xff80);
}

}  // namespace dabke::test
