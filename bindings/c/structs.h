// The caller's structs, read and written. Each begins with its size in the caller's version of the header, so
// a struct may grow in later versions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "runtime/base/status.h"

namespace dabke {

/// Copies a caller's struct over `out`, which holds the defaults. A longer struct is accepted if its extra
/// bytes are zero.
template <class T>
Status read_struct(const T* from, T& out, std::string_view name) {
  if (from == nullptr) return {};
  const std::size_t size = from->struct_size;
  if (size < sizeof(std::size_t) || size > (1 << 16)) {
    return {Code::invalid_argument,
            fmt::format("{}.struct_size is {}; set it to sizeof({}), or begin with the struct's _INIT", name,
                        size, name)};
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      return {Code::invalid_argument,
              fmt::format("{} is longer than this library supports, and byte {} is set: the program was "
                          "built for a newer Dabke; install that version",
                          name, i)};
    }
  }
  std::memcpy(static_cast<void*>(&out), from, std::min(size, sizeof(T)));
  out.struct_size = sizeof(T);
  return {};
}

/// Writes as many bytes of `from` as the caller's struct has room for.
template <class T>
Status write_struct(const T& from, T* to, std::string_view name) {
  if (to == nullptr || to->struct_size < sizeof(std::size_t)) {
    return {Code::invalid_argument,
            fmt::format("{}: pass a struct whose struct_size is sizeof({})", name, name)};
  }
  const std::size_t size = to->struct_size;
  std::memcpy(static_cast<void*>(to), &from, std::min(size, sizeof(T)));
  to->struct_size = size;
  return {};
}

}  // namespace dabke
