// The parts of an HTTP head on which both sides of the rendezvous store agree.
#pragma once

#include <algorithm>
#include <cctype>
#include <string_view>

namespace dabke::store::http_head {

inline constexpr std::string_view kEnd = "\r\n\r\n";

/// True if two names of headers are equal, whatever their case.
inline bool is_same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace dabke::store::http_head
