// Texts as JSON.
#pragma once

#include <string>
#include <string_view>

namespace dabke::timeline {

/// Returns the text as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

}  // namespace dabke::timeline
