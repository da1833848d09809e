#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "runtime/base/tensor.h"

namespace dabke {

inline constexpr std::size_t kDeviceTypeCount = static_cast<std::size_t>(kLast<DeviceType>) + 1;

/// All device types, in order.
inline constexpr auto kDeviceTypes = [] {
  std::array<DeviceType, kDeviceTypeCount> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<DeviceType>(i);
  return all;
}();

/// One T for each device type.
template <class T>
class ByDeviceType {
 public:
  constexpr T& operator[](DeviceType type) { return all_[static_cast<std::size_t>(type)]; }
  constexpr const T& operator[](DeviceType type) const { return all_[static_cast<std::size_t>(type)]; }
  constexpr auto begin() { return all_.begin(); }
  constexpr auto end() { return all_.end(); }
  constexpr auto begin() const { return all_.begin(); }
  constexpr auto end() const { return all_.end(); }

 private:
  std::array<T, kDeviceTypeCount> all_{};
};

/// A set of device types.
class DeviceTypes {
 public:
  constexpr DeviceTypes() = default;
  constexpr DeviceTypes(std::initializer_list<DeviceType> types) {
    for (const DeviceType type : types) insert(type);
  }
  constexpr bool contains(DeviceType type) const { return (bits_ & bit(type)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr void insert(DeviceType type) { bits_ = static_cast<std::uint8_t>(bits_ | bit(type)); }
  friend constexpr bool operator==(DeviceTypes, DeviceTypes) = default;

 private:
  static constexpr std::uint8_t bit(DeviceType type) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(type));
  }
  std::uint8_t bits_ = 0;
};

}  // namespace dabke
