// What the CPU does to elements: reduce, scale, copy. One portable Highway source, the best target chosen at run time.
//
// Arithmetic: float16 and bfloat16 are computed in float32 and rounded to nearest even at the end. Integers wrap.
// bool: sum and max are OR, product and min are AND. min and max give NaN if either operand is NaN, and treat -0 as less
// than +0. scale on an integer computes in (long) double and truncates toward zero, except that a result within 2^-40
// (relative) of a whole number is that number, so that 49 * (1/49) is 1; scale on bool does nothing for a factor other than 0.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"

namespace dabke::kernels {

/// into[i] = a[i] op b[i]. `into` may equal a or b; no other overlap. Any alignment. op: sum, min, max, product.
void reduce(DType dtype, ReduceOp op, void* into, const void* a, const void* b, std::size_t elements);

/// into[i] = from[0][i] op from[1][i] op ..., in this order, of `count` (2 or more) operands; float16 and bfloat16 are rounded
/// once, at the end. `into` may equal any of them; no other overlap.
void reduce_many(DType dtype, ReduceOp op, void* into, const void* const* from, std::size_t count, std::size_t elements);

/// into[i] = from[i] * factor. `into` may equal `from`. A factor of 1 is a copy.
void scale(DType dtype, void* into, const void* from, std::size_t elements, double factor);

/// Fills with the neutral element of `op`: 0 for sum, 1 for product, the largest value (infinity) for min, the least for max.
void fill_neutral(DType dtype, ReduceOp op, void* into, std::size_t elements);

/// The instruction set in use, "AVX3" and so on; for --check-build and benchmarks.
std::string target_name();

/// For tests: the targets this CPU can run, and a way to force one ("" for the best again).
std::vector<std::string> target_names();
void use_target(const std::string& name);

}  // namespace dabke::kernels
