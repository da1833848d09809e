#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/dtype.h"
#include "runtime/base/kinds.h"
#include "runtime/base/shape.h"

namespace dabke {

//   id    name
#define DABKE_DEVICE_TYPES(X) \
  X(host, "host")             \
  X(cuda, "cuda")

enum class DeviceType : std::uint8_t {
#define X(id, ...) id,
  DABKE_DEVICE_TYPES(X)
#undef X
};
template <>
inline constexpr DType kLast<DType> = kDTypes.back();
#define X(...) +1
template <>
inline constexpr DeviceType kLast<DeviceType> = static_cast<DeviceType>(DABKE_DEVICE_TYPES(X) - 1);
#undef X

constexpr std::string_view name_of(DeviceType type) {
  switch (type) {
#define X(id, name) \
  case DeviceType::id: return name;
    DABKE_DEVICE_TYPES(X)
#undef X
  }
  return "unknown";
}

struct Device {
  DeviceType type = DeviceType::host;
  std::int32_t index = 0;
  friend auto operator<=>(const Device&, const Device&) = default;
  /// "host" or "cuda:0"
  std::string to_string() const {
    return type == DeviceType::host ? "host" : "cuda:" + std::to_string(index);
  }
};

/// A view of contiguous (row-major) memory that something else owns. `data` may be null if there are no
/// elements.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Device device;
  Shape shape;

  std::int64_t elements() const { return shape.elements(); }
  std::size_t size_bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
};

/// True if two pieces of memory have bytes in common.
inline bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto* const first = static_cast<const std::byte*>(a);
  const auto* const second = static_cast<const std::byte*>(b);
  const std::less<const std::byte*> before;
  return a_bytes != 0 && b_bytes != 0 && before(first, second + b_bytes) && before(second, first + a_bytes);
}
inline bool overlap(const TensorView& a, const TensorView& b) {
  return overlap(a.data, a.size_bytes(), b.data, b.size_bytes());
}

}  // namespace dabke
