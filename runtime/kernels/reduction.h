// What the instruction sets' reductions are told: bytes [begin, end) of into[0][i] = into[1][i] = ... =
// (from[0][i] op from[1][i] op ...) * factor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dabke::kernels {

struct Reduction {
  std::span<std::uint8_t* const> into;        // 1 or more
  std::span<const std::uint8_t* const> from;  // 2 or more
  std::size_t begin, end;
  double factor;
};

}  // namespace dabke::kernels
