// The CPU's work on elements: reduce, scale, convert, copy. One portable Highway source, whose best target is
// chosen at run time. All targets give the same bits, except for the payload of a NaN.
//
// Reductions:
//   float16, bfloat16  are computed in float32 and rounded to nearest even once, at the end of a call; too
//                      large values become infinity, and subnormals stay what they are
//   integers           wrap
//   bool               sum, max and bitwise or are OR; product, min and bitwise and are AND; bitwise xor is
//                      XOR; any byte but 0 is true
//   floats             have no bitwise operations; min and max give NaN if either operand is NaN;
//                      -0 is less than +0, and their sum is +0
//
// A factor of floats is rounded to their dtype, to float32 for float16 and bfloat16. It multiplies an element
// once, and the product is rounded once. The multiplied value is an element of the dtype, so a sum or an
// average of float16 is rounded first. Two factors are never joined: the prescale, the 1/n of an average and
// the postscale each round. An average alone is the sum times 1/n, rounded once. If float32 cannot hold 1/n,
// a float32 sum is multiplied in float64, so that the average of 41 equal numbers is that number.
//
// The product of an integer and a factor, divided by a divisor, is truncated toward zero once and stays
// within its type's range. It is exact in the sense of integer_scale.h. So sums wrap and scaled numbers do
// not: a sum must not depend on the order of its terms, and a factor is applied once. A factor changes bool
// only if it is 0.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"

namespace dabke::kernels {

/// A divisor and a factor: every element is divided and then multiplied. For integers both are one step.
struct Scale {
  constexpr Scale(double by = 1, std::uint32_t divided_by = 1) : factor(by), divisor(divided_by) {}
  bool is_one() const { return factor == 1 && divisor == 1; }
  /// The factor by which an average of floating dtypes multiplies its sum.
  double share() const { return 1.0 / divisor; }

  double factor;
  std::uint32_t divisor;  // the count of numbers in an average; not 0
};

/// The dtype of sums that must not be rounded, or wrap, before they are divided: float32 for float16 and
/// bfloat16, int32 and int64 for narrower integers. All others stay themselves; sums of 64 bits wrap.
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

/// into[i] = a[i] op b[i]. `into` may equal a or b; no other overlap. Any alignment. `op` is_defined() for
/// the dtype, and is not average or adasum.
void reduce(DType dtype, ReduceOp op, void* into, const void* a, const void* b, std::size_t elements);

/// into[0][i] = into[1][i] = ... = (from[0][i] op from[1][i] op ...), scaled, in this order. Reads 2 or more
/// operands and writes 1 or more places, in one pass over memory. Each of `into` may equal any one of `from`;
/// no other overlap.
///
/// The result equals that of reducing and then scaling, except for sums with a divisor. These are not rounded
/// (float16 and bfloat16) and do not wrap (integers) until they are divided, so an average does not overflow
/// where its sum would.
void reduce_many(DType dtype, ReduceOp op, std::span<void* const> into, std::span<const void* const> from,
                 std::size_t elements, const Scale& scale = {});

/// Copies into memory that another core has read and will read again. Stores past this core's caches, which
/// would otherwise fetch each line from there before changing it. Bytes outside whole lines are stored
/// normally. All bytes are stored before anything that this thread stores after the call. No overlap; any
/// alignment.
void stream_copy(void* into, const void* from, std::size_t bytes);

/// into[i] = from[i], scaled. `into` may equal `from`. A scale of one is a copy.
void scale(DType dtype, void* into, const void* from, std::size_t elements, const Scale& scale);

/// into[i] = from[i], scaled as scale() does, in wide_dtype(dtype); no overlap.
void widen(DType dtype, void* into, const void* from, std::size_t elements, const Scale& scale = {});
/// into[i] = from[i], a sum in wide_dtype(dtype), finished as reduce_many() finishes it. `into` may equal
/// `from`.
void narrow(DType dtype, void* into, const void* from, std::size_t elements, const Scale& scale);

/// into[i] = from[i] in another dtype, rounded to nearest even; both dtypes are float16, bfloat16 or float32.
/// `into` may equal `from` unless its elements are wider; no other overlap.
void convert(DType into_dtype, void* into, DType from_dtype, const void* from, std::size_t elements);

/// Fills with the neutral element of `op`: 0 for sum, bitwise or and bitwise xor, 1 for product, all bits set
/// for bitwise and. It is the largest value (infinity) for min, and the smallest for max.
void fill_neutral(DType dtype, ReduceOp op, void* into, std::size_t elements);

/// The name of the instruction set in use, such as "AVX3"; for --check-build and benchmarks.
std::string target_name();

/// For tests: the targets that this CPU can run, and a way to force one ("" restores the best).
std::vector<std::string> target_names();
void use_target(const std::string& name);

}  // namespace dabke::kernels
