// The arguments of a reduction for one instruction set: bytes [begin, end) of into[0][i] = into[1][i] = ... =
// (from[0][i] op from[1][i] op ...), scaled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/kernels/kernels.h"

namespace dabke::kernels {

struct Reduction {
  std::span<std::uint8_t* const> into;        // 1 or more
  std::span<const std::uint8_t* const> from;  // 2 or more
  std::size_t begin, end;
  Scale scale;  // for floating dtypes only
};

}  // namespace dabke::kernels
