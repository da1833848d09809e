#pragma once

#include <cstdint>

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"

namespace dabke {

/// Whether there can be a tensor like this: no dimension is negative, and its bytes, with 1 for each
/// dimension of 0, fit in 63 bits, so no size that is computed from it overflows. What one rank lets pass
/// every other must accept, so a submitted tensor and one that a message tells of are asked by this one
/// function.
inline bool is_possible(const Shape& shape, DType dtype) {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t dim : shape.dims()) {
    if (dim < 0 || __builtin_mul_overflow(bytes, dim == 0 ? 1 : dim, &bytes)) return false;
  }
  return true;
}

}  // namespace dabke
