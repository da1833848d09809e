// The parts of scale(), widen() and narrow() that are about integers.
#pragma once

#include <cstddef>

#include "runtime/kernels/kernels.h"

namespace dabke::kernels {

/// into[i] = from[i] * scale.factor / scale.divisor, from `from_dtype` to `dtype`, which is the same or the
/// one that it is the wide_dtype() of. `into` may equal `from`.
void scale_integers(DType dtype, void* into, DType from_dtype, const void* from, std::size_t elements,
                    const Scale& scale);
/// Into wide_dtype(dtype).
void widen_integers(DType dtype, void* into, const void* from, std::size_t elements);

}  // namespace dabke::kernels
