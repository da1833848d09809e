// Between float32 and what it travels as.
#pragma once

#include <cstddef>

#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"

namespace dabke {

/// What an element travels as; not for `none`.
constexpr DType wire_dtype(Compression compression) {
  return compression == Compression::float16 ? DType::f16 : DType::bf16;
}

/// Rounds to nearest even. No overlap.
void to_wire(DType wire, void* into, const float* from, std::size_t elements);
void from_wire(DType wire, float* into, const void* from, std::size_t elements);

}  // namespace dabke
