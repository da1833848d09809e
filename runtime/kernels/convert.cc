#include <cassert>
#include <cstring>

#include "runtime/kernels/highway_targets.h"
#include "runtime/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/convert.cc"
#include "hwy/foreach_target.h"  // includes this file again for each instruction set
#include "hwy/highway.h"
#include "runtime/kernels/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dabke::kernels::HWY_NAMESPACE {

/// Reads two vectors before it writes either. So if `into` is `from`, no unread element is overwritten unless
/// the elements become wider.
template <class Into, std::size_t kIntoBytes, class From, std::size_t kFromBytes>
void convert_vectors(std::uint8_t* into, const std::uint8_t* from, std::size_t elements) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  std::size_t i = 0;
  for (; i + 2 * lanes <= elements; i += 2 * lanes) {
    const FloatVec one = From::load(from + i * kFromBytes);
    const FloatVec two = From::load(from + (i + lanes) * kFromBytes);
    Into::store(one, into + i * kIntoBytes);
    Into::store(two, into + (i + lanes) * kIntoBytes);
  }
  for (std::size_t part; i < elements; i += part) {
    part = std::min(lanes, elements - i);
    std::uint8_t last[HWY_MAX_BYTES] = {};
    std::memcpy(last, from + i * kFromBytes, part * kFromBytes);
    Into::store(From::load(last), last);
    std::memcpy(into + i * kIntoBytes, last, part * kIntoBytes);
  }
}

template <class From, std::size_t kFromBytes>
void convert_from(DType into_dtype, std::uint8_t* into, const std::uint8_t* from, std::size_t elements) {
  switch (into_dtype) {
    case DType::f16: return convert_vectors<Float16, 2, From, kFromBytes>(into, from, elements);
    case DType::bf16: return convert_vectors<Bfloat16InOrder, 2, From, kFromBytes>(into, from, elements);
    case DType::f32: return convert_vectors<Plain<float>, 4, From, kFromBytes>(into, from, elements);
    default: assert(false && "only float16, bfloat16 and float32 are converted");
  }
}

void convert_dtype(DType into_dtype, std::uint8_t* into, DType from_dtype, const std::uint8_t* from,
                   std::size_t elements) {
  switch (from_dtype) {
    case DType::f16: return convert_from<Float16, 2>(into_dtype, into, from, elements);
    case DType::bf16: return convert_from<Bfloat16InOrder, 2>(into_dtype, into, from, elements);
    case DType::f32: return convert_from<Plain<float>, 4>(into_dtype, into, from, elements);
    default: assert(false && "only float16, bfloat16 and float32 are converted");
  }
}

}  // namespace dabke::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dabke::kernels {

HWY_EXPORT(convert_dtype);

void convert(DType into_dtype, void* into, DType from_dtype, const void* from, std::size_t elements) {
  if (elements == 0) return;
  if (into_dtype == from_dtype) return scale(into_dtype, into, from, elements, 1);
  HWY_DYNAMIC_DISPATCH(convert_dtype)
  (into_dtype, static_cast<std::uint8_t*>(into), from_dtype, static_cast<const std::uint8_t*>(from),
   elements);
}

}  // namespace dabke::kernels
#endif
