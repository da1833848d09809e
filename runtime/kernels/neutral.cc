#include <cassert>
#include <cstring>
#include <limits>

#include "runtime/kernels/kernels.h"

namespace dabke::kernels {
namespace {

template <class T>
T neutral(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::sum: return T(0);
    case ReduceOp::product: return T(1);
    case ReduceOp::min: return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case ReduceOp::max: return Limits::has_infinity ? static_cast<T>(-Limits::infinity()) : Limits::lowest();
    case ReduceOp::bitwise_and:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(std::is_same_v<T, bool> ? 1 : -1);
      break;
    case ReduceOp::bitwise_or:
    case ReduceOp::bitwise_xor: return T(0);
    case ReduceOp::average:
    case ReduceOp::adasum: break;
  }
  assert(false && "average and adasum have no neutral element of their own, floats no bits");
  return T(0);
}

}  // namespace

void fill_neutral(DType dtype, ReduceOp op, void* into, std::size_t elements) {
  auto* bytes = static_cast<std::byte*>(into);
  visit_dtype(dtype, [&]<class T>(std::type_identity<T>) {
    T value;
    if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
      value = T(neutral<float>(op));
    } else {
      value = neutral<T>(op);
    }
    for (std::size_t i = 0; i < elements; ++i) std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  });
}

}  // namespace dabke::kernels
