#include <cassert>

#include "ops/kernels/highway_targets.h"
#include "ops/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/kernels/reduce.cc"
#include "hwy/foreach_target.h"  // includes this file again for each instruction set
#include "hwy/highway.h"
#include "ops/kernels/elements-inl.h"

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

/// The rules that the CPU's own min and max do not have: NaN if either is NaN, and -0 below +0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V pick(V a, V b, hn::Mask<D> take_b, V of_equals) {
  const auto picked = hn::IfThenElse(hn::Eq(a, b), of_equals, hn::IfThenElse(take_b, b, a));
  return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Add(a, b), picked);
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

/// The elements at byte `at` of all operands, in their order; computed without rounding in between.
template <class Elements, class Op>
HWY_INLINE typename Elements::V reduce_at(const std::uint8_t* const* from, std::size_t count,
                                          std::size_t at) {
  const typename Elements::D d;
  auto sum = Op::apply(d, Elements::load(from[0] + at), Elements::load(from[1] + at));
  for (std::size_t k = 2; k < count; ++k) sum = Op::apply(d, sum, Elements::load(from[k] + at));
  return sum;
}

template <class Elements, class Op>
void reduce_all(std::uint8_t* into, const std::uint8_t* const* from, std::size_t count,
                std::size_t elements) {
  const typename Elements::D d;
  const std::size_t step = hn::Lanes(d) * Elements::kBytes;
  const std::size_t bytes = elements * Elements::kBytes;
  std::size_t i = 0;
  for (; i + 2 * step <= bytes; i += 2 * step) {
    const auto one = reduce_at<Elements, Op>(from, count, i);
    const auto two = reduce_at<Elements, Op>(from, count, i + step);
    Elements::store(one, into + i);
    Elements::store(two, into + i + step);
  }
  for (; i + step <= bytes; i += step) Elements::store(reduce_at<Elements, Op>(from, count, i), into + i);
  if (const std::size_t left = bytes - i; left != 0) {
    std::uint8_t last[HWY_MAX_BYTES] = {};
    std::uint8_t next[HWY_MAX_BYTES] = {};
    std::memcpy(last, from[0] + i, left);
    auto sum = Elements::load(last);
    for (std::size_t k = 1; k < count; ++k) {
      std::memcpy(next, from[k] + i, left);
      sum = Op::apply(d, sum, Elements::load(next));
    }
    Elements::store(sum, last);
    std::memcpy(into + i, last, left);
  }
}

template <class Elements>
void reduce_op(ReduceOp op, std::uint8_t* into, const std::uint8_t* const* from, std::size_t count,
               std::size_t n) {
  switch (op) {
    case ReduceOp::sum: return reduce_all<Elements, Sum>(into, from, count, n);
    case ReduceOp::product: return reduce_all<Elements, Product>(into, from, count, n);
    case ReduceOp::min: return reduce_all<Elements, Min>(into, from, count, n);
    case ReduceOp::max: return reduce_all<Elements, Max>(into, from, count, n);
    case ReduceOp::average:
    case ReduceOp::adasum: break;
  }
  assert(false && "no such kernel: average and adasum are made of others");
}

void reduce_bool(ReduceOp op, std::uint8_t* into, const std::uint8_t* const* from, std::size_t count,
                 std::size_t n) {
  // Not bitwise: any byte but 0 is true, and max and min keep one of the two.
  assert(op != ReduceOp::average && op != ReduceOp::adasum);
  const bool is_or = op == ReduceOp::sum || op == ReduceOp::max;
  reduce_op<Plain<std::uint8_t>>(is_or ? ReduceOp::max : ReduceOp::min, into, from, count, n);
}

void reduce_dtype(DType dtype, ReduceOp op, std::uint8_t* into, const std::uint8_t* const* from,
                  std::size_t count, std::size_t n) {
  switch (dtype) {
    case DType::b8: return reduce_bool(op, into, from, count, n);
    case DType::f16: return reduce_op<Float16>(op, into, from, count, n);
    case DType::bf16: return reduce_op<Bfloat16>(op, into, from, count, n);
    case DType::i8: return reduce_op<Plain<std::int8_t>>(op, into, from, count, n);
    case DType::i16: return reduce_op<Plain<std::int16_t>>(op, into, from, count, n);
    case DType::i32: return reduce_op<Plain<std::int32_t>>(op, into, from, count, n);
    case DType::i64: return reduce_op<Plain<std::int64_t>>(op, into, from, count, n);
    case DType::u8: return reduce_op<Plain<std::uint8_t>>(op, into, from, count, n);
    case DType::u16: return reduce_op<Plain<std::uint16_t>>(op, into, from, count, n);
    case DType::u32: return reduce_op<Plain<std::uint32_t>>(op, into, from, count, n);
    case DType::u64: return reduce_op<Plain<std::uint64_t>>(op, into, from, count, n);
    case DType::f32: return reduce_op<Plain<float>>(op, into, from, count, n);
    case DType::f64: return reduce_op<Plain<double>>(op, into, from, count, n);
  }
}

}  // namespace dabke::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dabke::kernels {

HWY_EXPORT(reduce_dtype);

void reduce_many(DType dtype, ReduceOp op, void* into, const void* const* from, std::size_t count,
                 std::size_t elements) {
  if (elements == 0) return;
  assert(count >= 2);
  HWY_DYNAMIC_DISPATCH(reduce_dtype)
  (dtype, op, static_cast<std::uint8_t*>(into), reinterpret_cast<const std::uint8_t* const*>(from), count,
   elements);
}

void reduce(DType dtype, ReduceOp op, void* into, const void* a, const void* b, std::size_t elements) {
  const void* const from[] = {a, b};
  reduce_many(dtype, op, into, from, 2, elements);
}

}  // namespace dabke::kernels
#endif
