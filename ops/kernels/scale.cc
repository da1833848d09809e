#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/kernels/highway_targets.h"
#include "ops/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/kernels/scale.cc"
#include "hwy/foreach_target.h"  // includes this file again for each instruction set
#include "hwy/highway.h"
#include "ops/kernels/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dabke::kernels::HWY_NAMESPACE {

template <class Elements, class Factor>
void scale_vectors(const Factor factor, std::uint8_t* into, const std::uint8_t* from, std::size_t bytes) {
  const std::size_t step = Elements::step_bytes();
  std::size_t i = 0;
  for (; i + step <= bytes; i += step) {
    Elements::store(Elements::times(Elements::load(from + i), factor), into + i);
  }
  if (const std::size_t left = bytes - i; left != 0) {
    std::uint8_t last[HWY_MAX_BYTES] = {};
    std::memcpy(last, from + i, left);
    Elements::store(Elements::times(Elements::load(last), factor), last);
    std::memcpy(into + i, last, left);
  }
}

template <class Elements>
void scale_floats(std::uint8_t* into, const std::uint8_t* from, std::size_t bytes, double factor) {
  scale_vectors<Elements>(Factor<typename Elements::D>(factor), into, from, bytes);
}

template <class T>
T scaled(T value, double factor) {
  // A double holds the product of an int32 to 2^-53; for 64 bits only long double keeps the low digits of the
  // value.
  using Real = std::conditional_t<sizeof(T) == 8, long double, double>;
  constexpr Real kUnit = 0x1p-40;
  Real exact = static_cast<Real>(value) * static_cast<Real>(factor);
  const Real nearest = std::rint(exact);
  if (std::fabs(exact - nearest) <= std::fabs(nearest) * kUnit) exact = nearest;
  // Out of range is undefined for the cast; the nearest value that exists is the least surprise.
  if (std::isnan(exact)) return 0;
  if (exact <= static_cast<Real>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (exact >= static_cast<Real>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(exact);
}

/// What `scaled` does, for as many whole vectors of float64 as there are. Returns how many elements that
/// were.
template <class T>
std::size_t scale_by_vectors(std::uint8_t* into, const std::uint8_t* from, std::size_t elements,
                             double factor) {
  using Wide = hn::ScalableTag<double>;
  using Middle = hn::Rebind<std::int32_t, Wide>;
  using Narrow = hn::Rebind<T, Wide>;
  const Wide wide;
  const auto times = hn::Set(wide, factor);
  const auto unit = hn::Set(wide, 0x1p-40);
  const auto least = hn::Set(wide, static_cast<double>(std::numeric_limits<T>::min()));
  const auto most = hn::Set(wide, static_cast<double>(std::numeric_limits<T>::max()));
  const std::size_t lanes = hn::Lanes(wide);
  std::size_t i = 0;
  for (; i + lanes <= elements; i += lanes) {
    const auto narrow = hn::LoadU(Narrow(), reinterpret_cast<const T*>(from) + i);
    auto exact = [&] {
      if constexpr (sizeof(T) == 4) {
        return hn::PromoteTo(wide, narrow);
      } else {
        return hn::PromoteTo(wide, hn::PromoteTo(Middle(), narrow));
      }
    }();
    exact = hn::Mul(exact, times);
    const auto nearest = hn::Round(exact);
    const auto is_near = hn::Le(hn::Abs(hn::Sub(exact, nearest)), hn::Mul(hn::Abs(nearest), unit));
    exact = hn::IfThenElse(is_near, nearest, exact);
    exact = hn::IfThenZeroElse(hn::IsNaN(exact), exact);
    const auto whole = hn::DemoteTo(Middle(), hn::Min(hn::Max(exact, least), most));
    if constexpr (sizeof(T) == 4) {
      hn::StoreU(whole, Narrow(), reinterpret_cast<T*>(into) + i);
    } else {
      hn::StoreU(hn::DemoteTo(Narrow(), whole), Narrow(), reinterpret_cast<T*>(into) + i);
    }
  }
  return i;
}

template <class T>
void scale_integers(std::uint8_t* into, const std::uint8_t* from, std::size_t elements, double factor) {
  std::size_t i = 0;
  // What int32 holds; float64 holds no product of 64 bits.
  if constexpr (sizeof(T) < 4 || std::is_same_v<T, std::int32_t>) {
    i = scale_by_vectors<T>(into, from, elements, factor);
  }
  for (; i < elements; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    value = scaled(value, factor);
    std::memcpy(into + i * sizeof(T), &value, sizeof(T));
  }
}

void scale_dtype(DType dtype, std::uint8_t* into, const std::uint8_t* from, std::size_t n, double factor) {
  switch (dtype) {
    case DType::b8: return;  // the caller copies or clears
    case DType::f16: return scale_floats<Float16>(into, from, 2 * n, factor);
    case DType::bf16: return scale_floats<Bfloat16>(into, from, 2 * n, factor);
    case DType::f64: return scale_floats<Plain<double>>(into, from, 8 * n, factor);
    case DType::f32:
      if (WideFactor::is_needed(factor)) {
        return scale_vectors<Plain<float>>(WideFactor(factor), into, from, 4 * n);
      }
      return scale_floats<Plain<float>>(into, from, 4 * n, factor);
    case DType::i8: return scale_integers<std::int8_t>(into, from, n, factor);
    case DType::i16: return scale_integers<std::int16_t>(into, from, n, factor);
    case DType::i32: return scale_integers<std::int32_t>(into, from, n, factor);
    case DType::i64: return scale_integers<std::int64_t>(into, from, n, factor);
    case DType::u8: return scale_integers<std::uint8_t>(into, from, n, factor);
    case DType::u16: return scale_integers<std::uint16_t>(into, from, n, factor);
    case DType::u32: return scale_integers<std::uint32_t>(into, from, n, factor);
    case DType::u64: return scale_integers<std::uint64_t>(into, from, n, factor);
  }
}

}  // namespace dabke::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dabke::kernels {

HWY_EXPORT(scale_dtype);

void scale(DType dtype, void* into, const void* from, std::size_t elements, double factor) {
  if (elements == 0) return;
  if (dtype == DType::b8 && factor == 0) {
    std::memset(into, 0, elements);
  } else if (dtype == DType::b8 || factor == 1) {
    if (into != from) std::memcpy(into, from, elements * size_of(dtype));
  } else {
    HWY_DYNAMIC_DISPATCH(scale_dtype)
    (dtype, static_cast<std::uint8_t*>(into), static_cast<const std::uint8_t*>(from), elements, factor);
  }
}

}  // namespace dabke::kernels
#endif
