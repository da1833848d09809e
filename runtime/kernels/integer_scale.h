// An integer times a factor, divided by a divisor, as exactly as possible: no float64 on the way. The work on
// each element is constexpr, so that GPU kernels use the same code.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/kernels/kernels.h"

namespace dabke::kernels {

__extension__ using Product = unsigned __int128;

/// value / divisor of unsigned integers, by a multiplication.
class Divider {
 public:
  constexpr explicit Divider(std::uint64_t divisor)
      : divisor_(divisor), inverse_(~std::uint64_t{0} / divisor) {}
  constexpr std::uint64_t operator()(std::uint64_t value) const {
    // Too small by at most 2, because the inverse is too small by less than 2 / 2^64.
    auto quotient = static_cast<std::uint64_t>((static_cast<Product>(value) * inverse_) >> 64);
    for (std::uint64_t rest = value - quotient * divisor_; rest >= divisor_; rest -= divisor_) ++quotient;
    return quotient;
  }
  constexpr std::uint64_t divisor() const { return divisor_; }

 private:
  std::uint64_t divisor_;
  std::uint64_t inverse_;
};

/// Truncates toward zero, and stays within the result's type.
///
/// The factor is mantissa * 2^-shift. A mantissa with many digits, such as that of 1.0 / 3, was itself
/// rounded, and represents any number that rounds to it. If the product of one of those numbers is an
/// integer, the result is that integer, so 49 * (1.0 / 49) is 1. A factor with fewer digits (1, 0.5, 12.75)
/// represents only itself.
class IntegerScale {
 public:
  explicit IntegerScale(const Scale& scale)
      : divide_(scale.divisor), divides_only_(scale.factor == 1), is_negative_(std::signbit(scale.factor)) {
    if (std::isnan(scale.factor)) return;  // NaN is taken as zero
    is_infinite_ = std::isinf(scale.factor);
    if (is_infinite_) return;
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(scale.factor), &exponent);
    mantissa_ = static_cast<std::uint64_t>(std::ldexp(fraction, kDigits));
    shift_ = kDigits - exponent;
    constexpr std::uint64_t kRoundedDigits = (std::uint64_t{1} << 20) - 1;
    was_rounded_ = (mantissa_ & kRoundedDigits) != 0;
  }

  /// `T` is the type of the stored result, `Wide` an integer of at least its width.
  template <class T, class Wide>
  constexpr T apply(Wide value) const {
    const bool is_below = value < 0;
    const auto bits = static_cast<std::uint64_t>(value);
    const std::uint64_t size = is_below ? 0 - bits : bits;
    if (divides_only_) return stored<T>(divide_(size), is_below);
    return stored<T>(scaled(size), is_below != is_negative_);
  }

 private:
  static constexpr int kDigits = 53;
  static constexpr std::uint64_t kMost = ~std::uint64_t{0};

  template <class T>
  static constexpr T stored(std::uint64_t size, bool is_below) {
    using Limits = std::numeric_limits<T>;
    constexpr auto kMostAbove = static_cast<std::uint64_t>(Limits::max());
    constexpr std::uint64_t kMostBelow = std::is_signed_v<T> ? kMostAbove + 1 : 0;
    if (!is_below) return static_cast<T>(size < kMostAbove ? size : kMostAbove);
    return static_cast<T>(0 - (size < kMostBelow ? size : kMostBelow));
  }

  constexpr std::uint64_t scaled(std::uint64_t size) const {
    if (size == 0) return 0;
    if (is_infinite_) return kMost;
    const Product product = static_cast<Product>(size) * mantissa_;  // below 2^117
    if (shift_ >= 118) return 0;
    if (shift_ < 0) {  // a factor of 2^53 or more
      if (product != 0 && std::countl_zero(static_cast<std::uint64_t>(product >> 64)) <= -shift_)
        return kMost;
      return divided(product << -shift_);
    }
    const std::uint64_t below = divided(product >> shift_);
    // Adds the effect of half a unit of the mantissa.
    const std::uint64_t above = was_rounded_ ? divided((product + size / 2) >> shift_) : below;
    return above > below ? below + 1 : below;
  }

  constexpr std::uint64_t divided(Product value) const {
    if (value <= kMost) return divide_(static_cast<std::uint64_t>(value));
    const Product quotient = value / divide_.divisor();
    return quotient <= kMost ? static_cast<std::uint64_t>(quotient) : kMost;
  }

  Divider divide_;
  bool divides_only_;
  bool is_negative_;
  bool is_infinite_ = false;
  bool was_rounded_ = false;
  std::uint64_t mantissa_ = 0;
  int shift_ = 0;
};

}  // namespace dabke::kernels
