#include <algorithm>
#include <cassert>
#include <cstring>
#include <type_traits>

#include "runtime/kernels/highway_targets.h"
#include "runtime/kernels/kernels.h"
#include "runtime/kernels/reduction.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/reduce.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // includes this file again for each instruction set
#include "hwy/highway.h"
#include "runtime/kernels/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dabke::kernels::HWY_NAMESPACE {

template <class D>
inline constexpr bool kIsFloat = hwy::IsFloat<hn::TFromD<D>>();

struct Sum {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Add(a, b);
  }
};

struct Product {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    using T = hn::TFromD<D>;
    if constexpr (sizeof(T) == 1 && HWY_TARGET == HWY_SCALAR) {
      return hn::Set(D(), static_cast<T>(hn::GetLane(a) * hn::GetLane(b)));
    } else if constexpr (sizeof(T) ==
                         1) {  // no byte multiplication anywhere: even and odd bytes as 16-bit ones
      const hn::Repartition<std::uint16_t, D> dw;
      const auto wide_a = hn::BitCast(dw, a);
      const auto wide_b = hn::BitCast(dw, b);
      const auto even = hn::And(hn::Mul(wide_a, wide_b), hn::Set(dw, 0xff));
      const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(wide_a), hn::ShiftRight<8>(wide_b)));
      return hn::BitCast(D(), hn::Or(even, odd));
    } else {
      return hn::Mul(a, b);
    }
  }
};

/// The rules that the CPU's own min and max lack: NaN if either is NaN, and -0 below +0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V pick(V a, V b, hn::Mask<D> take_b, V of_equals) {
  // No comparison with a NaN holds, so without IsNaN(b) the result would be `a`, even if only `b` is a NaN.
  const auto other = hn::IfThenElse(hn::Or(take_b, hn::IsNaN(b)), b, a);
  return hn::IfThenElse(hn::Eq(a, b), of_equals, other);
}

struct Min {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (kIsFloat<D>) {
      return pick<D>(a, b, hn::Lt(b, a), hn::Or(a, b));  // equal numbers differ only in the sign of zero
    } else {
      return hn::Min(a, b);
    }
  }
};

struct Max {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (kIsFloat<D>) {
      return pick<D>(a, b, hn::Lt(a, b), hn::And(a, b));
    } else {
      return hn::Max(a, b);
    }
  }
};

struct BitwiseAnd {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::And(a, b);
  }
};

struct BitwiseOr {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Or(a, b);
  }
};

struct BitwiseXor {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Xor(a, b);
  }
};

/// For bytes that are true if any of their bits is set; the result is 0 or 1.
struct LogicalXor {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V a, V b) {
    const auto no = hn::Zero(D());
    const auto is_true = [no](V v) { return hn::IfThenElse(hn::Eq(v, no), no, hn::Set(D(), 1)); };
    return hn::Xor(is_true(a), is_true(b));
  }
};

/// Reduces at most one step of bytes.
template <class Elements, class Op, class Factor>
void reduce_part(const Reduction& r, const Factor& factor, std::size_t at, std::size_t bytes) {
  std::uint8_t last[HWY_MAX_BYTES] = {};
  std::uint8_t next[HWY_MAX_BYTES] = {};
  std::memcpy(last, r.from[0] + at, bytes);
  auto sum = Elements::load(last);
  for (std::size_t k = 1; k < r.from.size(); ++k) {
    std::memcpy(next, r.from[k] + at, bytes);
    sum = Elements::template combine<Op>(sum, Elements::load(next));
  }
  Elements::store(Elements::times(sum, factor), last);
  for (std::uint8_t* const into : r.into) std::memcpy(into + at, last, bytes);
}

/// The number of bytes by which operands are prefetched, or 0. With more than two operands there is much to
/// compute for each line, and the CPU by itself has too few loads under way. With two, or in a cache,
/// prefetching costs more than it saves.
inline std::size_t fetch_ahead(const Reduction& r) {
  constexpr std::size_t kMoreThanACache = 4 << 20;
  const std::size_t rows = r.from.size() + r.into.size();
  return r.from.size() > 2 && rows * (r.end - r.begin) >= kMoreThanACache ? 1024 : 0;
}

template <class Elements, class Op, class Factor>
void reduce_all(const Reduction r, const Factor factor) {
  using E = Elements;
  const std::size_t step = E::step_bytes();
  // Read here and not in the loop, because the compiler must assume that the loop's stores change them.
  const std::uint8_t* const a = r.from[0];
  const std::uint8_t* const b = r.from[1];
  std::uint8_t* const into = r.into[0];
  const std::size_t ahead = fetch_ahead(r);
  std::size_t i = r.begin;
  for (; i + 2 * step <= r.end; i += 2 * step) {
    const std::size_t j = i + step;
    for (std::size_t k = 0; ahead != 0 && k < r.from.size(); ++k) {
      hwy::Prefetch(r.from[k] + i + ahead);
      if (step >= 64) hwy::Prefetch(r.from[k] + j + ahead);  // a cache line
    }
    auto one = E::template combine<Op>(E::load(a + i), E::load(b + i));
    auto two = E::template combine<Op>(E::load(a + j), E::load(b + j));
    for (std::size_t k = 2; k < r.from.size(); ++k) {
      one = E::template combine<Op>(one, E::load(r.from[k] + i));
      two = E::template combine<Op>(two, E::load(r.from[k] + j));
    }
    one = E::times(one, factor);
    two = E::times(two, factor);
    E::store(one, into + i);
    E::store(two, into + j);
    for (std::size_t k = 1; k < r.into.size(); ++k) {
      E::store(one, r.into[k] + i);
      E::store(two, r.into[k] + j);
    }
  }
  for (std::size_t part; i < r.end; i += part) {
    part = std::min(step, r.end - i);
    reduce_part<Elements, Op>(r, factor, i, part);
  }
}

template <class Elements, class Factor = NoFactor>
void reduce_op(ReduceOp op, const Reduction& r, const Factor& factor = {}) {
  switch (op) {
    case ReduceOp::sum: return reduce_all<Elements, Sum>(r, factor);
    case ReduceOp::product: return reduce_all<Elements, Product>(r, factor);
    case ReduceOp::min: return reduce_all<Elements, Min>(r, factor);
    case ReduceOp::max: return reduce_all<Elements, Max>(r, factor);
    default: break;
  }
  assert(false && "no such kernel: average and adasum are made of others, bits have their own");
}

/// Bitwise operations on integers of any width are bitwise operations on their bytes.
void reduce_bits(ReduceOp op, const Reduction& r) {
  using Bytes = Plain<std::uint8_t>;
  if (op == ReduceOp::bitwise_and) return reduce_all<Bytes, BitwiseAnd>(r, NoFactor());
  if (op == ReduceOp::bitwise_or) return reduce_all<Bytes, BitwiseOr>(r, NoFactor());
  reduce_all<Bytes, BitwiseXor>(r, NoFactor());
}

bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::bitwise_and || op == ReduceOp::bitwise_or || op == ReduceOp::bitwise_xor;
}

template <class Elements>
void reduce_floats(ReduceOp op, const Reduction& r) {
  with_factor<Elements>(r.scale, false,
                        [&](const auto& factor) HWY_ATTR { reduce_op<Elements>(op, r, factor); });
}

void reduce_bool(ReduceOp op, const Reduction& r) {
  // Not bitwise: any byte but 0 is true, and max and min keep one of the two bytes.
  assert(is_defined(op, DType::b8));
  if (op == ReduceOp::bitwise_xor) return reduce_all<Plain<std::uint8_t>, LogicalXor>(r, NoFactor());
  const bool is_or = op == ReduceOp::sum || op == ReduceOp::max || op == ReduceOp::bitwise_or;
  reduce_op<Plain<std::uint8_t>>(is_or ? ReduceOp::max : ReduceOp::min, r);
}

/// Applies the scale only to floating dtypes.
void reduce_dtype(DType dtype, ReduceOp op, const Reduction& r) {
  if (dtype != DType::b8 && is_bitwise(op)) return reduce_bits(op, r);
  switch (dtype) {
    case DType::b8: return reduce_bool(op, r);
    case DType::f16: return reduce_floats<Float16>(op, r);
    case DType::bf16: return reduce_floats<Bfloat16>(op, r);
    case DType::i8: return reduce_op<Plain<std::int8_t>>(op, r);
    case DType::i16: return reduce_op<Plain<std::int16_t>>(op, r);
    case DType::i32: return reduce_op<Plain<std::int32_t>>(op, r);
    case DType::i64: return reduce_op<Plain<std::int64_t>>(op, r);
    case DType::u8: return reduce_op<Plain<std::uint8_t>>(op, r);
    case DType::u16: return reduce_op<Plain<std::uint16_t>>(op, r);
    case DType::u32: return reduce_op<Plain<std::uint32_t>>(op, r);
    case DType::u64: return reduce_op<Plain<std::uint64_t>>(op, r);
    case DType::f32: return reduce_floats<Plain<float>>(op, r);
    case DType::f64: return reduce_floats<Plain<double>>(op, r);
  }
}

}  // namespace dabke::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dabke::kernels {

HWY_EXPORT(reduce_dtype);

namespace {

/// Sums of integers that are divided: in a wider dtype, block by block in the innermost cache.
void average_integers(DType dtype, const Reduction& r, const Scale& scale) {
  constexpr std::size_t kBlock = 1024;
  alignas(64) std::uint8_t sum[kBlock * sizeof(std::int64_t)];
  alignas(64) std::uint8_t next[kBlock * sizeof(std::int64_t)];
  std::uint8_t* const sum_place = sum;
  const std::uint8_t* const terms[] = {sum, next};
  const DType wide = wide_dtype(dtype);
  const std::size_t width = size_of(dtype);
  for (std::size_t at = r.begin; at < r.end; at += kBlock * width) {
    const std::size_t elements = std::min(kBlock, (r.end - at) / width);
    widen(dtype, sum, r.from[0] + at, elements);
    for (std::size_t k = 1; k < r.from.size(); ++k) {
      widen(dtype, next, r.from[k] + at, elements);
      HWY_DYNAMIC_DISPATCH(reduce_dtype)
      (wide, ReduceOp::sum, {{&sum_place, 1}, terms, 0, elements * size_of(wide), {}});
    }
    narrow(dtype, r.into[0] + at, sum, elements, scale);
    for (std::size_t k = 1; k < r.into.size(); ++k)
      std::memcpy(r.into[k] + at, r.into[0] + at, elements * width);
  }
}

}  // namespace

void reduce_many(DType dtype, ReduceOp op, std::span<void* const> into, std::span<const void* const> from,
                 std::size_t elements, const Scale& scale) {
  if (elements == 0) return;
  assert(!into.empty() && from.size() >= 2);
  const std::size_t bytes = elements * size_of(dtype);
  Reduction r{{reinterpret_cast<std::uint8_t* const*>(into.data()), into.size()},
              {reinterpret_cast<const std::uint8_t* const*>(from.data()), from.size()},
              0,
              bytes,
              scale};
  if (scale.is_one() || is_floating(dtype)) return HWY_DYNAMIC_DISPATCH(reduce_dtype)(dtype, op, r);
  if (scale.divisor != 1 && op == ReduceOp::sum && wide_dtype(dtype) != dtype)
    return average_integers(dtype, r, scale);
  // Integers are scaled by another loop, in blocks so that it finds them in the innermost cache.
  constexpr std::size_t kBlockBytes = 8192;
  for (; r.begin < bytes; r.begin = r.end) {
    r.end = std::min(r.begin + kBlockBytes, bytes);
    HWY_DYNAMIC_DISPATCH(reduce_dtype)(dtype, op, r);
    for (std::uint8_t* const place : r.into)
      kernels::scale(dtype, place + r.begin, place + r.begin, (r.end - r.begin) / size_of(dtype), scale);
  }
}

void reduce(DType dtype, ReduceOp op, void* into, const void* a, const void* b, std::size_t elements) {
  const void* const from[] = {a, b};
  reduce_many(dtype, op, {&into, 1}, from, elements);
}

}  // namespace dabke::kernels
#endif
