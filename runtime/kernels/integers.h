// The integer parts of scale(), widen() and narrow().
#pragma once

#include <cstddef>

#include "runtime/kernels/kernels.h"

namespace dabke::kernels {

/// into[i] = from[i] * scale.factor / scale.divisor. `from_dtype` is `dtype` or wide_dtype(dtype). `into` may
/// equal `from`.
void scale_integers(DType dtype, void* into, DType from_dtype, const void* from, std::size_t elements,
                    const Scale& scale);
/// into[i] = from[i] in wide_dtype(dtype).
void widen_integers(DType dtype, void* into, const void* from, std::size_t elements);

}  // namespace dabke::kernels
