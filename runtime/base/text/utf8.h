// Texts from outside, made readable as UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace dabke {

/// True if `text` is UTF-8 by RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF.
bool is_utf8(std::string_view text);

/// The text with \xNN in the place of each byte that is not part of UTF-8.
std::string escaped_utf8(std::string_view text);

}  // namespace dabke
