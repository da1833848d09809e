#include <algorithm>
#include <cstddef>

#include "runtime/kernels/integers.h"
#include "runtime/kernels/kernels.h"

namespace dabke::kernels {

void widen(DType dtype, void* into, const void* from, std::size_t elements, double factor) {
  const DType wide = wide_dtype(dtype);
  if (wide == dtype) return scale(dtype, into, from, elements, factor);
  if (factor == 1 && is_floating(dtype)) return convert(wide, into, dtype, from, elements);
  if (factor == 1) return widen_integers(dtype, into, from, elements);
  constexpr std::size_t kBlock = 1024;
  std::uint32_t scaled[kBlock];
  for (std::size_t at = 0; at < elements; at += kBlock) {
    const std::size_t count = std::min(kBlock, elements - at);
    scale(dtype, scaled, static_cast<const std::byte*>(from) + at * size_of(dtype), count, factor);
    widen(dtype, static_cast<std::byte*>(into) + at * size_of(wide), scaled, count);
  }
}

void narrow(DType dtype, void* into, const void* from, std::size_t elements, const Scale& scale) {
  const DType wide = wide_dtype(dtype);
  if (wide == dtype) return kernels::scale(dtype, into, from, elements, scale);
  if (!is_floating(dtype)) return scale_integers(dtype, into, wide, from, elements, scale);
  if (scale.is_one()) return convert(dtype, into, wide, from, elements);
  constexpr std::size_t kBlock = 2048;
  float scaled[kBlock];
  for (std::size_t at = 0; at < elements; at += kBlock) {
    const std::size_t count = std::min(kBlock, elements - at);
    kernels::scale(wide, scaled, static_cast<const std::byte*>(from) + at * sizeof(float), count, scale);
    convert(dtype, static_cast<std::byte*>(into) + at * size_of(dtype), wide, scaled, count);
  }
}

}  // namespace dabke::kernels
