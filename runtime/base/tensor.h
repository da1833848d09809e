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

enum class DeviceType : std::uint8_t { host, cuda };
template <>
inline constexpr DType kLast<DType> = static_cast<DType>(kDTypes.size() - 1);
template <>
inline constexpr DeviceType kLast<DeviceType> = DeviceType::cuda;

constexpr std::string_view name_of(DeviceType type) { return type == DeviceType::host ? "host" : "cuda"; }

struct Device {
  DeviceType type = DeviceType::host;
  std::int32_t index = 0;
  friend auto operator<=>(const Device&, const Device&) = default;
  /// "host" or "cuda:0"
  std::string to_string() const {
    return type == DeviceType::host ? "host" : "cuda:" + std::to_string(index);
  }
};

/// Contiguous (row-major) memory of somebody else. `data` may be null when there are no elements.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Device device;
  Shape shape;

  std::int64_t elements() const { return shape.elements(); }
  std::size_t size_bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }
};

/// Whether they have memory in common.
inline bool overlap(const TensorView& a, const TensorView& b) {
  const auto* const first = static_cast<const std::byte*>(a.data);
  const auto* const second = static_cast<const std::byte*>(b.data);
  const std::less<const std::byte*> before;
  return a.size_bytes() != 0 && b.size_bytes() != 0 && before(first, second + b.size_bytes()) &&
         before(second, first + a.size_bytes());
}

}  // namespace dabke
