#include "dtypes.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace storm {
namespace {

/// The sign, the exponent and the fraction, in the layout of IEEE 754.
struct Layout {
  int exponent_bits;
  int fraction_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
constexpr Layout kFloat16{5, 10};
constexpr Layout kBfloat16{8, 7};

Bits narrowed(double real, Layout layout) {
  const Bits sign = std::signbit(real) ? Bits{1} << (layout.exponent_bits + layout.fraction_bits) : 0;
  const Bits infinity = ((Bits{1} << layout.exponent_bits) - 1) << layout.fraction_bits;
  if (std::isnan(real)) return sign | infinity | 1;
  if (std::isinf(real)) return sign | infinity;
  if (real == 0) return sign;
  int exponent = std::ilogb(real);
  const int least = 1 - layout.bias();
  exponent = exponent < least ? least : exponent;
  const double fraction = std::nearbyint(std::ldexp(std::fabs(real), layout.fraction_bits - exponent));
  // A fraction that overflows carries into the exponent.
  const Bits bits =
      (static_cast<Bits>(exponent - least) << layout.fraction_bits) + static_cast<Bits>(fraction);
  return sign | (bits > infinity ? infinity : bits);
}

double widened(Bits bits, Layout layout) {
  const Bits fraction = bits & ((Bits{1} << layout.fraction_bits) - 1);
  const auto exponent =
      static_cast<int>(bits >> layout.fraction_bits & ((Bits{1} << layout.exponent_bits) - 1));
  const bool is_negative = (bits >> (layout.exponent_bits + layout.fraction_bits) & 1) != 0;
  double real = 0;
  if (exponent == (1 << layout.exponent_bits) - 1) {
    real = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    const Bits whole = exponent == 0 ? fraction : fraction | Bits{1} << layout.fraction_bits;
    real = std::ldexp(static_cast<double>(whole),
                      (exponent == 0 ? 1 : exponent) - layout.bias() - layout.fraction_bits);
  }
  return is_negative ? -real : real;
}

}  // namespace

Bits cut(Dtype dtype, Bits whole) {
  const int bits = row_of(dtype).bits;
  return bits == 64 ? whole : whole & ((Bits{1} << bits) - 1);
}

Bits extended(Dtype dtype, Bits bits) {
  if (!is_signed(dtype)) return bits;
  const int unused = 64 - row_of(dtype).bits;
  return static_cast<Bits>(static_cast<std::int64_t>(bits << unused) >> unused);
}

Bits bits_of(Dtype dtype, double real) {
  switch (dtype) {
    case Dtype::f16: return narrowed(real, kFloat16);
    case Dtype::bf16: return narrowed(real, kBfloat16);
    case Dtype::f32: return std::bit_cast<std::uint32_t>(static_cast<float>(real));
    default: return std::bit_cast<Bits>(real);
  }
}

double real_of(Dtype dtype, Bits bits) {
  switch (dtype) {
    case Dtype::f16: return widened(bits, kFloat16);
    case Dtype::bf16: return widened(bits, kBfloat16);
    case Dtype::f32: return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    default: return std::bit_cast<double>(bits);
  }
}

Bits load(Dtype dtype, const std::byte* from) {
  Bits bits = 0;  // this runs only on little-endian machines
  std::memcpy(&bits, from, size_of(dtype));
  return bits;
}

void store(Dtype dtype, std::byte* to, Bits bits) { std::memcpy(to, &bits, size_of(dtype)); }

}  // namespace storm
