// Moves elements into vectors and back: whole vectors at any address, and the remaining elements through a
// padded copy. So an element's result never depends on its place in the tensor. Compiled once for each
// instruction set; hence the guard that toggles.
#if defined(DABKE_OPS_KERNELS_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DABKE_OPS_KERNELS_ELEMENTS_INL_H_
#undef DABKE_OPS_KERNELS_ELEMENTS_INL_H_
#else
#define DABKE_OPS_KERNELS_ELEMENTS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "runtime/base/half.h"
#include "runtime/kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace dabke::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Each kind of elements has a vector type V for computing, and
//   step_bytes()       the bytes of memory in one V
//   load, store        from and to any address
//   combine<Op>(a, b)  an operation on two V
//   times(v, factor)   a product with one of the factors below
//   rounded(v)         the result of store() and then load(), for a vector of D
//   kKeepsAll          true if that is v itself

/// Elements that are computed in the type in which they are stored.
template <class T>
struct Plain {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static HWY_INLINE std::size_t step_bytes() { return hn::Lanes(D()) * sizeof(T); }
  static HWY_INLINE V load(const std::uint8_t* from) {
    return hn::LoadU(D(), reinterpret_cast<const T*>(from));
  }
  static HWY_INLINE void store(V v, std::uint8_t* into) { hn::StoreU(v, D(), reinterpret_cast<T*>(into)); }
  static constexpr bool kKeepsAll = true;
  static HWY_INLINE V rounded(V v) { return v; }
  template <class Op>
  static HWY_INLINE V combine(V a, V b) {
    return Op::apply(D(), a, b);
  }
  template <class Factor>
  static HWY_INLINE V times(V v, const Factor& factor) {
    return factor(v);
  }
};

// 16-bit formats are computed in float32: these are the vectors with the lane count of a float32 vector.
using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
using ShortTag = hn::Rebind<std::uint16_t, FloatTag>;

HWY_INLINE hn::Vec<WordTag> load_shorts(const std::uint8_t* from) {
  return hn::PromoteTo(WordTag(), hn::LoadU(ShortTag(), reinterpret_cast<const std::uint16_t*>(from)));
}
/// Each word must fit into 16 bits.
HWY_INLINE void store_shorts(hn::Vec<WordTag> words, std::uint8_t* into) {
  // The signed narrowing is enough: the unsigned one takes signed words and saturates, which changes no value
  // here.
  const auto shorts = hn::DemoteTo(ShortTag(), hn::BitCast(hn::RebindToSigned<WordTag>(), words));
  hn::StoreU(shorts, ShortTag(), reinterpret_cast<std::uint16_t*>(into));
}

/// The upper half of each word is the float's bfloat16; the lower half has no meaning. A NaN keeps its own
/// upper half, so the caller must make sure that a bit of its mantissa is set there. The CPU's own conversion
/// (AVX512_BF16) takes subnormals for zero.
HWY_INLINE hn::Vec<WordTag> rounded_to_bfloat16(FloatVec v) {
  const WordTag dw;
  const auto bits = hn::BitCast(dw, v);
  const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(dw, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(dw, 0x7fff)), is_odd);
  return hn::IfThenElse(hn::RebindMask(dw, hn::IsNaN(v)), bits, rounded);
}

/// Two elements in a word, without any shuffle. For code in which the order of elements does not matter.
struct Bfloat16 {
  using D = FloatTag;
  struct V {
    FloatVec low, high;
  };
  static HWY_INLINE std::size_t step_bytes() { return hn::Lanes(WordTag()) * 4; }
  static HWY_INLINE V load(const std::uint8_t* from) {
    const WordTag dw;
    const auto words = hn::LoadU(dw, reinterpret_cast<const std::uint32_t*>(from));
    return {hn::BitCast(D(), hn::ShiftLeft<16>(words)),
            hn::BitCast(D(), hn::And(words, hn::Set(dw, 0xffff0000)))};
  }
  /// A NaN here was loaded or is the result of arithmetic, so its upper half is a NaN as well.
  static HWY_INLINE void store(V v, std::uint8_t* into) {
    const WordTag dw;
    const auto low = hn::ShiftRight<16>(rounded_to_bfloat16(v.low));
    const auto high = rounded_to_bfloat16(v.high);
#if HWY_TARGET == HWY_SCALAR
    const auto words = hn::Or(low, hn::And(high, hn::Set(dw, 0xffff0000)));
#else
    const hn::Repartition<std::uint16_t, WordTag> halves;
    const auto words = hn::BitCast(dw, hn::OddEven(hn::BitCast(halves, high), hn::BitCast(halves, low)));
#endif
    hn::StoreU(words, dw, reinterpret_cast<std::uint32_t*>(into));
  }
  static constexpr bool kKeepsAll = false;
  static HWY_INLINE FloatVec rounded(FloatVec v) {
    return hn::BitCast(D(), hn::And(rounded_to_bfloat16(v), hn::Set(WordTag(), 0xffff0000)));
  }
  template <class Op>
  static HWY_INLINE V combine(V a, V b) {
    return {Op::apply(D(), a.low, b.low), Op::apply(D(), a.high, b.high)};
  }
  template <class Factor>
  static HWY_INLINE V times(V v, const Factor& factor) {
    return {factor(v.low), factor(v.high)};
  }
};

/// One vector of consecutive elements.
struct Bfloat16InOrder {
  static HWY_INLINE FloatVec load(const std::uint8_t* from) {
    return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(load_shorts(from)));
  }
  static HWY_INLINE void store(FloatVec v, std::uint8_t* into) {
    const WordTag dw;
    const auto quiet = hn::Or(hn::BitCast(dw, v), hn::Set(dw, 0x400000));
    const auto is_nan = hn::RebindMask(dw, hn::IsNaN(v));
    store_shorts(hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded_to_bfloat16(v))), into);
  }
};

struct Float16 {
  using D = FloatTag;
  using V = FloatVec;
  static HWY_INLINE std::size_t step_bytes() { return hn::Lanes(D()) * 2; }
  static constexpr bool kKeepsAll = false;
  template <class Op>
  static HWY_INLINE V combine(V a, V b) {
    return Op::apply(D(), a, b);
  }
  template <class Factor>
  static HWY_INLINE V times(V v, const Factor& factor) {
    return factor(v);
  }
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
  // The hardware converts as f16 does: it rounds to nearest even, and keeps subnormals and infinities.
  using HalfTag = hn::Rebind<hwy::float16_t, FloatTag>;
  static HWY_INLINE V load(const std::uint8_t* from) {
    const auto shorts = hn::LoadU(ShortTag(), reinterpret_cast<const std::uint16_t*>(from));
    return hn::PromoteTo(D(), hn::BitCast(HalfTag(), shorts));
  }
  static HWY_INLINE void store(V v, std::uint8_t* into) {
    const auto shorts = hn::BitCast(ShortTag(), hn::DemoteTo(HalfTag(), v));
    hn::StoreU(shorts, ShortTag(), reinterpret_cast<std::uint16_t*>(into));
  }
  static HWY_INLINE V rounded(V v) { return hn::PromoteTo(D(), hn::DemoteTo(HalfTag(), v)); }
#else
  // Highway's own conversion without hardware drops subnormals and does not round to even. This is f16's
  // conversion, in vectors.
  static HWY_INLINE V load(const std::uint8_t* from) { return number_of(load_shorts(from)); }
  static HWY_INLINE void store(V v, std::uint8_t* into) { store_shorts(half_of(v), into); }
  static HWY_INLINE V rounded(V v) { return number_of(half_of(v)); }

 private:
  static HWY_INLINE V number_of(hn::Vec<WordTag> half) {
    const WordTag dw;
    const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(dw, 0x8000)));
    const auto magnitude = hn::And(half, hn::Set(dw, 0x7fff));
    const auto moved = hn::ShiftLeft<13>(magnitude);
    const auto normal = hn::Add(moved, hn::Set(dw, 112u << 23));
    const auto special = hn::Or(moved, hn::Set(dw, 0x7f800000));
    // A subnormal is its mantissa times 2^-24. Put the mantissa under the exponent of 2^-14, whose unit is
    // 2^-24, and subtract 2^-14.
    const auto base = hn::Set(dw, 0x38800000);
    const auto subnormal =
        hn::BitCast(dw, hn::Sub(hn::BitCast(D(), hn::Or(moved, base)), hn::BitCast(D(), base)));
    auto bits = hn::IfThenElse(less(magnitude, 0x400), subnormal, normal);
    bits = hn::IfThenElse(less(magnitude, 0x7c00), bits, special);
    return hn::BitCast(D(), hn::Or(bits, sign));
  }
  static HWY_INLINE hn::Vec<WordTag> half_of(V v) {
    const WordTag dw;
    const auto bits = hn::BitCast(dw, v);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(dw, 0x8000));
    const auto magnitude = hn::And(bits, hn::Set(dw, 0x7fffffff));
    const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(dw, 0x3ff));
    const auto nan = hn::Or(payload, hn::Set(dw, 0x7e00));
    // 0.5 has the unit 2^-24 of float16's subnormals, so the sum rounds to even there.
    const auto sum = hn::Add(hn::BitCast(D(), magnitude), hn::Set(D(), 0.5f));
    const auto subnormal = hn::Sub(hn::BitCast(dw, sum), hn::Set(dw, 0x3f000000));
    const auto is_odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(dw, 1));
    const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(dw, 0xfff)), is_odd);
    const auto normal = hn::ShiftRight<13>(hn::Sub(rounded, hn::Set(dw, 112u << 23)));
    auto half = hn::IfThenElse(less(magnitude, 0x38800000), subnormal, normal);
    half = hn::IfThenElse(less(magnitude, 0x47800000), half, hn::Set(dw, 0x7c00));
    half = hn::IfThenElse(less(magnitude, 0x7f800001), half, nan);
    return hn::Or(half, sign);
  }

  /// Both values are below 2^31, so the signed comparison, which every target has, is enough.
  static HWY_INLINE hn::Mask<WordTag> less(hn::Vec<WordTag> words, std::uint32_t limit) {
    const hn::RebindToSigned<WordTag> di;
    return hn::RebindMask(WordTag(),
                          hn::Lt(hn::BitCast(di, words), hn::Set(di, static_cast<std::int32_t>(limit))));
  }
#endif
};

struct NoFactor {
  template <class V>
  HWY_INLINE V operator()(V v) const {
    return v;
  }
};

template <class D>
struct Factor {
  hn::Vec<D> factor;
  explicit Factor(double by) : factor(hn::Set(D(), static_cast<hn::TFromD<D>>(by))) {}
  HWY_INLINE hn::Vec<D> operator()(hn::Vec<D> v) const { return hn::Mul(v, factor); }
};

/// The 1/n of an average of float32 if float32 cannot hold it. Computed in float64, so that 41 * (1/41) is 1.
struct WideFactor {
  using Wide = hn::ScalableTag<double>;
  hn::Vec<Wide> factor;
  explicit WideFactor(double by) : factor(hn::Set(Wide(), by)) {}
  static bool is_needed(double by) { return static_cast<double>(static_cast<float>(by)) != by; }

  HWY_INLINE FloatVec operator()(FloatVec v) const {
#if HWY_TARGET == HWY_SCALAR  // its DemoteTo gives the largest number instead of infinity
    return hn::Set(FloatTag(), static_cast<float>(hn::GetLane(v) * hn::GetLane(factor)));
#else
    const hn::Half<FloatTag> half;
    const auto low = hn::Mul(hn::PromoteTo(Wide(), hn::LowerHalf(half, v)), factor);
    const auto high = hn::Mul(hn::PromoteTo(Wide(), hn::UpperHalf(half, v)), factor);
    return hn::Combine(FloatTag(), hn::DemoteTo(half, high), hn::DemoteTo(half, low));
#endif
  }
};

/// The share of an average (or 1) and then a factor. Each product is rounded.
template <class Elements, class Share>
struct ShareAndFactor {
  Share share;
  Factor<typename Elements::D> factor;
  template <class V>
  HWY_INLINE V operator()(V v) const {
    return factor(Elements::rounded(share(v)));
  }
};

/// Calls `act` with the factor that multiplies vectors by `scale`. `are_stored` is true for vectors of stored
/// elements, and false for sums that are still to be rounded.
template <class Elements, class Act>
HWY_INLINE void with_factor(const Scale& scale, bool are_stored, Act act) {
  using D = typename Elements::D;
  if (scale.is_one()) return act(NoFactor());
  if (scale.divisor == 1 && (are_stored || Elements::kKeepsAll)) return act(Factor<D>(scale.factor));
  if constexpr (std::is_same_v<Elements, Plain<float>>) {
    if (const WideFactor share(scale.share()); WideFactor::is_needed(scale.share())) {
      if (scale.factor == 1) return act(share);
      return act(ShareAndFactor<Elements, WideFactor>{share, Factor<D>(scale.factor)});
    }
  }
  const Factor<D> share(scale.share());
  if (scale.factor == 1) return act(share);
  act(ShareAndFactor<Elements, Factor<D>>{share, Factor<D>(scale.factor)});
}

}  // namespace dabke::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
