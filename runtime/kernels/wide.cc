#include <algorithm>
#include <cstddef>

#include "runtime/kernels/integers.h"
#include "runtime/kernels/kernels.h"

namespace dabke::kernels {

void widen(DType dtype, void* into, const void* from, std::size_t elements, const Scale& scale) {
  const DType wide = wide_dtype(dtype);
  if (wide == dtype) return kernels::scale(dtype, into, from, elements, scale);
  if (scale.is_one() && is_floating(dtype)) return convert(wide, into, dtype, from, elements);
  if (scale.is_one()) return widen_integers(dtype, into, from, elements);
  constexpr std::size_t kBlock = 1024;
  std::uint32_t scaled[kBlock];
  for (std::size_t at = 0; at < elements; at += kBlock) {
    const std::size_t count = std::min(kBlock, elements - at);
    kernels::scale(dtype, scaled, static_cast<const std::byte*>(from) + at * size_of(dtype), count, scale);
    widen(dtype, static_cast<std::byte*>(into) + at * size_of(wide), scaled, count);
  }
}

void narrow(DType dtype, void* into, const void* from, std::size_t elements, const Scale& scale) {
  const DType wide = wide_dtype(dtype);
  if (wide == dtype) return kernels::scale(dtype, into, from, elements, scale);
  if (!is_floating(dtype)) return scale_integers(dtype, into, wide, from, elements, scale);
  if (scale.is_one()) return convert(dtype, into, wide, from, elements);
  constexpr std::size_t kBlock = 2048;
  float average[kBlock];
  for (std::size_t at = 0; at < elements; at += kBlock) {
    const std::size_t count = std::min(kBlock, elements - at);
    std::byte* const place = static_cast<std::byte*>(into) + at * size_of(dtype);
    kernels::scale(wide, average, static_cast<const std::byte*>(from) + at * sizeof(float), count,
                   {1, scale.divisor});
    convert(dtype, place, wide, average, count);
    kernels::scale(dtype, place, place, count, scale.factor);
  }
}

}  // namespace dabke::kernels
