#include "runtime/kernels/highway_targets.h"
#include "runtime/kernels/integers.h"
#include "runtime/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/scale.cc"
#include "hwy/foreach_target.h"  // includes this file again for each instruction set
#include "hwy/highway.h"
#include "runtime/kernels/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dabke::kernels::HWY_NAMESPACE {

template <class Elements, class Factor>
void scale_vectors(const Factor factor, std::uint8_t* into, const std::uint8_t* from, std::size_t bytes) {
  const std::size_t step = Elements::step_bytes();
  std::size_t i = 0;
  for (; i + step <= bytes; i += step) {
    Elements::store(Elements::times(Elements::load(from + i), factor), into + i);
  }
  if (const std::size_t left = bytes - i; left != 0) {
    std::uint8_t last[HWY_MAX_BYTES] = {};
    std::memcpy(last, from + i, left);
    Elements::store(Elements::times(Elements::load(last), factor), last);
    std::memcpy(into + i, last, left);
  }
}

template <class Elements>
void scale_floats(std::uint8_t* into, const std::uint8_t* from, std::size_t bytes, const Scale& scale) {
  with_factor<Elements>(
      scale, true, [&](const auto& factor) HWY_ATTR { scale_vectors<Elements>(factor, into, from, bytes); });
}

/// Scales floating dtypes.
void scale_dtype(DType dtype, std::uint8_t* into, const std::uint8_t* from, std::size_t n,
                 const Scale& scale) {
  switch (dtype) {
    case DType::f16: return scale_floats<Float16>(into, from, 2 * n, scale);
    case DType::bf16: return scale_floats<Bfloat16>(into, from, 2 * n, scale);
    case DType::f32: return scale_floats<Plain<float>>(into, from, 4 * n, scale);
    case DType::f64: return scale_floats<Plain<double>>(into, from, 8 * n, scale);
    default: return;
  }
}

}  // namespace dabke::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dabke::kernels {

HWY_EXPORT(scale_dtype);

void scale(DType dtype, void* into, const void* from, std::size_t elements, const Scale& scale) {
  if (elements == 0) return;
  if (dtype == DType::b8 && scale.factor == 0) {
    std::memset(into, 0, elements);
  } else if (dtype == DType::b8 || scale.is_one()) {
    if (into != from) std::memcpy(into, from, elements * size_of(dtype));
  } else if (!is_floating(dtype)) {
    scale_integers(dtype, into, dtype, from, elements, scale);
  } else {
    HWY_DYNAMIC_DISPATCH(scale_dtype)
    (dtype, static_cast<std::uint8_t*>(into), static_cast<const std::uint8_t*>(from), elements, scale);
  }
}

}  // namespace dabke::kernels
#endif
