// What the two sides of the rendezvous store agree on about the head of an HTTP message.
#pragma once

#include <algorithm>
#include <cctype>
#include <string_view>

namespace dabke::store::http_head {

inline constexpr std::string_view kEnd = "\r\n\r\n";

/// Names of headers are equal in any case.
inline bool is_same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace dabke::store::http_head
