// Texts that come from outside, which others read as UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace dabke {

/// Whether it is UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing past U+10FFFF.
bool is_utf8(std::string_view text);

/// The text with \xNN in the place of each byte that is no part of UTF-8.
std::string escaped_utf8(std::string_view text);

}  // namespace dabke
