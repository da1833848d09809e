// What the instruction sets' reductions are told: bytes [begin, end) of into[i] = (from[0][i] op from[1][i]
// op ...) * factor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dabke::kernels {

struct Reduction {
  std::uint8_t* into;
  const std::uint8_t* const* from;
  std::size_t count;  // of operands, 2 or more
  std::size_t begin, end;
  double factor;
};

}  // namespace dabke::kernels
