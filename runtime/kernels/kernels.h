// What the CPU does to elements: reduce, scale, convert, copy. One portable Highway source, the best target
// chosen at run time; all targets give the same bits, but for which NaN a NaN is.
//
// Arithmetic: float16 and bfloat16 are computed in float32 and rounded to nearest even once, at the end of a
// call; too large becomes infinity, and subnormals stay what they are. Integers wrap. bool: sum, max
// and bitwise or are OR, product, min and bitwise and are AND, bitwise xor is XOR; any byte but 0 is true. Floats
// have no bits. min and max give NaN if either operand is NaN, and
// treat -0 as less than +0. A sum of -0 and +0 is +0.
//
// A factor of floats is rounded to their dtype, to float32 for float16 and bfloat16. An element is multiplied by
// it once and rounded once; what is multiplied is an element of the dtype, so a sum or an average of float16 is
// rounded before the factor comes. Two factors are never joined: the prescale, the 1/n of an average and the
// postscale each round. An average alone is the sum times 1/n, rounded once; 1/n multiplies float32 in float64
// where float32 cannot hold it, so that the average of 41 equal numbers is that number.
//
// An integer's product with a factor, divided by a divisor, is truncated toward zero once and stays within its
// type's range; it is exact, as integer_scale.h says. So sums wrap and scaled numbers do not: a sum must come
// out alike in whatever order it is made, and a factor comes once. A factor does nothing to bool unless it is
// 0.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"

namespace dabke::kernels {

/// What every element is divided by and then multiplied by; of integers, both at once.
struct Scale {
  constexpr Scale(double by = 1, std::uint32_t divided_by = 1) : factor(by), divisor(divided_by) {}
  bool is_one() const { return factor == 1 && divisor == 1; }
  /// What an average of floating dtypes multiplies its sum by.
  double share() const { return 1.0 / divisor; }

  double factor;
  std::uint32_t divisor;  // how many numbers a sum is the average of; not 0
};

/// What sums of a dtype are made in where they must not be rounded, or wrap, before they are divided: float32
/// for float16 and bfloat16, int32 and int64 for narrower integers. Itself for all others: sums of 64 bits
/// wrap.
constexpr DType wide_dtype(DType dtype) {
  switch (dtype) {
    case DType::f16:
    case DType::bf16: return DType::f32;
    case DType::i8:
    case DType::u8: return DType::i32;
    case DType::i16:
    case DType::u16:
    case DType::i32:
    case DType::u32: return DType::i64;
    default: return dtype;
  }
}

/// into[i] = a[i] op b[i]. `into` may equal a or b; no other overlap. Any alignment. op: any but
/// average and adasum that is_defined() for the dtype.
void reduce(DType dtype, ReduceOp op, void* into, const void* a, const void* b, std::size_t elements);

/// into[0][i] = into[1][i] = ... = (from[0][i] op from[1][i] op ...), scaled, in this order, of 2 or more
/// operands into 1 or more places, in one pass over memory. Equal to reducing and then scaling, but for sums
/// with a divisor, which are not rounded (float16 and bfloat16) and whole (integers) until they are divided: an
/// average does not overflow where its sum would. Each of `into` may equal any one of `from`; no other overlap.
void reduce_many(DType dtype, ReduceOp op, std::span<void* const> into, std::span<const void* const> from,
                 std::size_t elements, const Scale& scale = {});

/// Copies to memory that another core has read and reads again: past this core's caches, which would fetch each line from
/// there before it is changed. What lies around the whole lines is stored as ever. All of it is there before what this
/// thread stores after the call. No overlap; any alignment.
void stream_copy(void* into, const void* from, std::size_t bytes);

/// into[i] = from[i], scaled. `into` may equal `from`. A scale of one is a copy.
void scale(DType dtype, void* into, const void* from, std::size_t elements, const Scale& scale);

/// into[i] = from[i], scaled as scale() does, in wide_dtype(dtype); no overlap.
void widen(DType dtype, void* into, const void* from, std::size_t elements, const Scale& scale = {});
/// into[i] = from[i], a sum in wide_dtype(dtype), as reduce_many() would leave it. `into` may equal `from`.
void narrow(DType dtype, void* into, const void* from, std::size_t elements, const Scale& scale);

/// into[i] = from[i] as another dtype, rounded to nearest even; both of float16, bfloat16 and float32. `into`
/// may equal `from` unless its elements are wider; no other overlap.
void convert(DType into_dtype, void* into, DType from_dtype, const void* from, std::size_t elements);

/// Fills with the neutral element of `op`: 0 for sum, 1 for product, the largest value (infinity) for min,
/// the least for max.
void fill_neutral(DType dtype, ReduceOp op, void* into, std::size_t elements);

/// The instruction set in use, "AVX3" and so on; for --check-build and benchmarks.
std::string target_name();

/// The targets that this CPU can run, for tests, and a way to force one ("" for the best again).
std::vector<std::string> target_names();
void use_target(const std::string& name);

}  // namespace dabke::kernels
