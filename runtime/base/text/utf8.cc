#include "runtime/base/text/utf8.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

namespace dabke {
namespace {

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

/// The size of the first character of `text` in bytes; 0 if the text does not begin with a valid character.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;  // 0xc0 and 0xc1 would begin characters that fit into one byte
  const std::size_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool is_overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool is_surrogate = first == 0xed && byte(1) >= 0xa0;
  const bool is_too_high = first == 0xf4 && byte(1) >= 0x90;
  return is_overlong || is_surrogate || is_too_high ? 0 : bytes;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (true) {
    const auto* const other = std::ranges::find_if_not(text, is_ascii);  // nearly always the end
    text.remove_prefix(static_cast<std::size_t>(other - text.begin()));
    if (text.empty()) return true;
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
}

std::string escaped_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0) out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(text[0]));
    out += text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

}  // namespace dabke
