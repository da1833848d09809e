#pragma once

#include <cstdint>

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"

namespace dabke {

/// True if a tensor of this shape and dtype can exist: no dimension is negative, and its bytes fit in 63
/// bits, where a dimension of 0 counts as 1. So no size that is computed from it overflows. Submitted tensors
/// and tensors in messages are checked by this one function, because every rank must accept what another
/// accepts.
inline bool is_possible(const Shape& shape, DType dtype) {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t dim : shape.dims()) {
    if (dim < 0 || __builtin_mul_overflow(bytes, dim == 0 ? 1 : dim, &bytes)) return false;
  }
  return true;
}

}  // namespace dabke
