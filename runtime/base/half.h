// The 16-bit floating-point storage types. Arithmetic is done in float32; these types only convert.
#pragma once

#include <bit>
#include <cstdint>

namespace dabke {

/// IEEE 754 binary16, as stored. Conversion from float rounds to nearest even.
struct f16 {
  std::uint16_t bits = 0;

  f16() = default;
  explicit f16(float value) : bits(from_float(value)) {}
  explicit operator float() const { return to_float(bits); }
  friend bool operator==(f16, f16) = default;

  static std::uint16_t from_float(float value) {
    const auto x = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (x >> 16) & 0x8000u;
    const std::uint32_t magnitude = x & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
      return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x47800000u)
      return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65536 and above: infinity
    if (magnitude < 0x38800000u) {                        // below 2^-14: a subnormal, whose unit is 2^-24
      const float scaled =
          std::bit_cast<float>(magnitude) + 0.5f;  // 0.5 has ulp 2^-24, so the sum rounds to even there
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(scaled) - 0x3f000000u));
    }
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  static float to_float(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
    const std::uint32_t exponent = (half >> 10) & 0x1fu;
    const std::uint32_t mantissa = half & 0x3ffu;
    if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
    if (exponent == 0) {
      const float value = static_cast<float>(mantissa) * 0x1p-24f;
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
    }
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  }
};

/// bfloat16: the upper half of a float32, as stored. Conversion from float rounds to nearest even.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float value) : bits(from_float(value)) {}
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  friend bool operator==(bf16, bf16) = default;

  static std::uint16_t from_float(float value) {
    const auto x = std::bit_cast<std::uint32_t>(value);
    if ((x & 0x7fffffffu) > 0x7f800000u)
      return static_cast<std::uint16_t>((x >> 16) | 0x40u);  // a NaN stays a NaN, and becomes quiet
    return static_cast<std::uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
  }
};

}  // namespace dabke
