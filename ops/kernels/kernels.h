// What the CPU does to elements: reduce, scale, convert, copy. One portable Highway source, the best target
// chosen at run time; all targets give the same bits, but for which NaN a NaN is.
//
// Arithmetic: float16 and bfloat16 are computed in float32 and rounded to nearest even once, at the end of a
// call; too large becomes infinity, and subnormals stay what they are. Integers wrap. bool: sum and max are
// OR, product and min are AND; any byte but 0 is true. min and max give NaN if either operand is NaN, and
// treat -0 as less than +0. A sum of -0 and +0 is +0.
//
// A factor multiplies float32 in float64 where float32 cannot hold the factor, so that 41 * (1/41) is 1. An
// integer is multiplied in (long) double, stays within its type's range and is truncated toward zero, except
// that a result within 2^-40 (relative) of a whole number is that number, so that 49 * (1/49) is 1. A factor
// does nothing to bool unless it is 0.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"

namespace dabke::kernels {

/// into[i] = a[i] op b[i]. `into` may equal a or b; no other overlap. Any alignment. op: sum, min, max,
/// product.
void reduce(DType dtype, ReduceOp op, void* into, const void* a, const void* b, std::size_t elements);

/// into[0][i] = into[1][i] = ... = (from[0][i] op from[1][i] op ...) * factor, in this order, of 2 or more
/// operands into 1 or more places, in one pass over memory. Equal to reducing and then scaling, but for
/// float16 and bfloat16, which are rounded once, after the factor: an average does not overflow where its sum
/// would. Each of `into` may equal any one of `from`; no other overlap.
void reduce_many(DType dtype, ReduceOp op, std::span<void* const> into, std::span<const void* const> from,
                 std::size_t elements, double factor = 1);

/// into[i] = from[i] * factor. `into` may equal `from`. A factor of 1 is a copy.
void scale(DType dtype, void* into, const void* from, std::size_t elements, double factor);

/// into[i] = from[i] as another dtype, rounded to nearest even; both of float16, bfloat16 and float32. `into`
/// may equal `from` unless its elements are wider; no other overlap.
void convert(DType into_dtype, void* into, DType from_dtype, const void* from, std::size_t elements);

/// Fills with the neutral element of `op`: 0 for sum, 1 for product, the largest value (infinity) for min,
/// the least for max.
void fill_neutral(DType dtype, ReduceOp op, void* into, std::size_t elements);

/// The instruction set in use, "AVX3" and so on; for --check-build and benchmarks.
std::string target_name();

/// For tests: the targets this CPU can run, and a way to force one ("" for the best again).
std::vector<std::string> target_names();
void use_target(const std::string& name);

}  // namespace dabke::kernels
