// Integers as they travel on our links: little-endian on every host.
#pragma once

#include <concepts>
#include <cstddef>

namespace dabke::links {

template <std::unsigned_integral T>
constexpr void store_le(T value, std::byte* out) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<std::byte>(value >> (8 * i));
}

template <std::unsigned_integral T>
constexpr T load_le(const std::byte* in) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(in[i]) << (8 * i));
  return value;
}

}  // namespace dabke::links
