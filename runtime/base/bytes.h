// Counts of bytes, and the sizes of cache lines and pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dabke {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::size_t kPageBytes = 4096;  // the smallest page size of any machine

/// Converts a count that is never negative to a size.
constexpr std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

inline std::byte* bytes_of(void* memory) { return static_cast<std::byte*>(memory); }
inline const std::byte* bytes_of(const void* memory) { return static_cast<const std::byte*>(memory); }

}  // namespace dabke
