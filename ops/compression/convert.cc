#include "ops/compression/convert.h"

#include "runtime/base/half.h"

namespace dabke {
namespace {

template <class Half>
void narrow(void* into, const float* from, std::size_t elements) {
  auto* const out = static_cast<Half*>(into);
  for (std::size_t i = 0; i < elements; ++i) out[i] = Half(from[i]);
}

template <class Half>
void widen(float* into, const void* from, std::size_t elements) {
  const auto* const in = static_cast<const Half*>(from);
  for (std::size_t i = 0; i < elements; ++i) into[i] = static_cast<float>(in[i]);
}

}  // namespace

void to_wire(DType wire, void* into, const float* from, std::size_t elements) {
  wire == DType::f16 ? narrow<f16>(into, from, elements) : narrow<bf16>(into, from, elements);
}

void from_wire(DType wire, float* into, const void* from, std::size_t elements) {
  wire == DType::f16 ? widen<f16>(into, from, elements) : widen<bf16>(into, from, elements);
}

}  // namespace dabke
